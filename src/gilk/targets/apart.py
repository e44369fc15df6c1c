# SPDX-License-Identifier: LGPL-2.1-or-later
"""Forks helper processes of gilk, and sets them apart: they go on by themselves, and ignore the signals that the
terminal sends to the command that began them."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from os import setpgid
from pathlib import Path

_NOT_FOR_US = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTTOU, signal.SIGPIPE)
#: The names of gilk's helper processes, which are not commands.
KEEPER, BROKER, FORK_SERVER = "gilk-keeper", "gilk-broker", "gilk-forks"
HELPERS = frozenset((KEEPER, BROKER, FORK_SERVER))
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def fork() -> int:
    """Fork this process; returns the number of the child, 0 in the child. Signals that come meanwhile are handled
    afterwards, in the parent: an exception that a handler raised in one of Python's at-fork callbacks (logging's locks
    have one) would be printed and lost."""
    if threading.current_thread() is not threading.main_thread():
        return os.fork()  # signal handlers run in the main thread only
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in _ENDING}
    handled = {number: handler for number, handler in before.items() if callable(handler)}
    for number in handled:
        signal.signal(number, lambda came_now, _: came.append(came_now))
    child = -1
    try:
        child = os.fork()
    finally:
        for one, handler in handled.items():
            signal.signal(one, handler)
        for each in came if child else ():
            signal.raise_signal(each)
    return child


def stand_apart(name: str) -> None:
    """Move this process to a process group of its own, name it ``name``, and ignore the terminal's signals."""
    for number in _NOT_FOR_US:
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        setpgid(0, 0)
        Path("/proc/self/comm").write_text(name)
