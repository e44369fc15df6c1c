# SPDX-License-Identifier: LGPL-2.1-or-later
"""The windows (`gilk web`) of this machine: each answers other processes of its user, which list it, stop it, or ask it
for an address with a new key.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from gilk import own_threads
from gilk.errors import GilkError, TargetError, UsageError
from gilk.session.broker import control
from gilk.session.broker.form import WINDOW, WINDOW_KEY

__all__ = ["key", "listed", "listening", "stop"]

Json = dict[str, Any]
_OUT: Final = 600.0  # the seconds that a window may take to take everything out and to complete its files


@contextlib.contextmanager
def listening(about: Callable[[], Json], key: Callable[[int], str]) -> Iterator[None]:
    """A context in which this process is listed as a window, with what ``about`` returns, and can be stopped, by
    SIGTERM. ``key`` is given the number of a user who asks for a key, and returns an address with a new one. Requests
    are answered in a thread. Raises OSError, MemoryError."""

    def answer(words: Json) -> Json:
        if words.get("ask") == "list":
            return about()
        if words.get("ask") == "stop":
            os.kill(os.getpid(), signal.SIGTERM)
            return {}
        if words.get("ask") == "key":
            return {"address": key(server.client)}
        raise UsageError("bad-request", "a window is listed or stopped, or asked for a key")

    over, ends = os.pipe()
    with control.ControlServer(answer, control.WEB) as server:

        def serve() -> None:
            while over not in select.select([server.fileno(), over], [], [])[0]:
                server.answer()

        thread = threading.Thread(target=serve, daemon=True)
        own_threads.start(thread)
        try:
            yield
        finally:
            os.close(ends)
            thread.join()
            os.close(over)


def listed() -> list[Json]:
    """The windows of this user, or, for root, of all users, by pid. The row of one that does not answer has the reason
    as ``silent``."""
    found: list[Json] = []
    for one in control.servers(control.WEB):
        try:
            said = control.ask(one.pid, {"ask": "list"}, control.WEB, WINDOW)
            found.append({**said, "pid": one.pid, "user": one.user})
        except GilkError as error:
            if error.slug != "no-such-window":
                found.append({"pid": one.pid, "user": one.user, "silent": error.message})
    return found


def stop(pid: int) -> None:
    """Stop a window, and wait until it has taken everything out and has ended. Raises UsageError `no-such-window`,
    TargetError `busy`."""
    try:
        process = os.pidfd_open(pid)
    except (OSError, ValueError, OverflowError):
        raise UsageError("no-such-window", f"there is no process {pid}", "`gilk web --list` shows windows") from None
    try:
        control.ask(pid, {"ask": "stop"}, control.WEB)
        if not select.select([process], [], [], _OUT)[0]:
            raise TargetError("busy", f"the window {pid} has not ended yet", "it may be taking out; try again")
    finally:
        os.close(process)


def key(pid: int) -> str:
    """The address of a window with a new key, which is good once and for a minute. Raises UsageError `no-such-window`,
    `not-your-window`, TargetError `busy`, `strange-answer`."""
    if pid not in [one.pid for one in control.servers(control.WEB)]:
        raise UsageError("no-such-window", f"process {pid} has no window of yours", "`gilk web --list` shows windows")
    return str(control.ask(pid, {"ask": "key"}, control.WEB, WINDOW_KEY)["address"])
