# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reaps traced threads that end while a request of ptrace(2) waits for their process.

A thread that executes another program first ends all other threads of its process, and waits until each that is traced
has been reaped by its tracer. Meanwhile it holds a lock that PTRACE_SEIZE takes, too. So a tracer that has seized one
thread of the process, and is about to seize another one, would wait for itself, for ever: here a thread of the tracer
reaps what has ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from gilk.own_threads import watcher

WALL: Final = 0x40000000  # __WALL: also threads, which Python's os module has no name for
_SOON, _AGAIN = 0.02, 0.01  # seconds until the first look, and between looks
_ENDS: Final = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)

_lock = threading.Lock()
_watched: tuple[Collection[int], ...] = ()
_statuses: dict[int, int] = {}
_reaper: threading.Thread | None = None


@contextmanager
def reaping(*tids: Collection[int]) -> Iterator[None]:
    """A context in which threads among ``tids`` that end are reaped, even if the calling thread waits in the kernel;
    taken() returns their wait statuses. SIGALRM must be blocked in all threads of this process."""
    global _watched
    if not _has_reaper():
        yield
        return
    _watched = tids
    signal.setitimer(signal.ITIMER_REAL, _SOON, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        with _lock:  # else a status might not be noted yet
            _watched = ()


def taken(tid: int) -> int | None:
    """The wait status of a thread that was reaped here; None if it was not, or the status has been taken."""
    return _statuses.pop(tid, None)


def _has_reaper() -> bool:
    """Whether there is a thread that reaps, or one could be started: a limit on addresses may leave little room."""
    global _reaper
    if _reaper is None or not _reaper.is_alive():
        _reaper = watcher(_reap)
    return _reaper is not None


def _reap() -> None:
    while True:
        signal.sigwait((signal.SIGALRM,))
        with _lock:
            for tid in [tid for some in _watched for tid in tuple(some)]:
                with contextlib.suppress(ChildProcessError):
                    _reap_if_ended(tid)


def _reap_if_ended(tid: int) -> None:
    """Reap a thread that has ended. A stop, which the kernel reports of traced threads in any case, is left for the
    tracer to see. Raises ChildProcessError."""
    found = os.waitid(os.P_PID, tid, os.WEXITED | os.WNOHANG | os.WNOWAIT | WALL)
    if found is not None and found.si_code in _ENDS:
        _, _statuses[tid] = os.waitpid(tid, WALL)
