# SPDX-License-Identifier: LGPL-2.1-or-later
"""The windows (`gilk web`) of this machine: each answers other processes of its user, which list it or stop it."""

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
from gilk.session.broker.form import WINDOW

__all__ = ["listed", "listening", "stop"]

Json = dict[str, Any]
_OUT: Final = 600.0  # the seconds that a window may take to take everything out and to complete its files


@contextlib.contextmanager
def listening(about: Callable[[], Json]) -> Iterator[None]:
    """A context in which this process is listed as a window, with what ``about`` returns, and can be stopped, by
    SIGTERM. Requests are answered in a thread. Raises OSError, MemoryError."""

    def answer(words: Json) -> Json:
        if words.get("ask") == "list":
            return about()
        if words.get("ask") == "stop":
            os.kill(os.getpid(), signal.SIGTERM)
            return {}
        raise UsageError("bad-request", "a window is listed or stopped")

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
