# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes of ours that are forked, and those that go on by themselves: what the terminal sends to the command that
began one is not for it."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from os import setpgid
from pathlib import Path

_NOT_FOR_US = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTTOU, signal.SIGPIPE)
#: The names of processes of ours that are not commands.
KEEPER, BROKER, FORK_SERVER = "gilk-keeper", "gilk-broker", "gilk-forks"
HELPERS = frozenset((KEEPER, BROKER, FORK_SERVER))
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def fork() -> int:
    """The number of the child; 0 in the child. A signal that comes meanwhile is handled afterwards, in the parent:
    Python would drop an exception in what it calls at a fork (logging's locks are one), with a traceback."""
    if threading.current_thread() is not threading.main_thread():
        return os.fork()  # handlers run in the main thread
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
    """In a process group of its own, called so, and deaf to those signals."""
    for number in _NOT_FOR_US:
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        setpgid(0, 0)
        Path("/proc/self/comm").write_text(name)
