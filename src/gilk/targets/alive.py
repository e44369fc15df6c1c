# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether a process, or a thread, is alive, and how long it has run."""

from __future__ import annotations

import contextlib
import os
import time

from gilk.targets.stat import STATE, SYSTEM_TIME, USER_TIME, stat_of
from gilk.targets.status import status_of
from gilk.targets.wire import readable


def is_alive(tid: int) -> bool:
    """Whether a thread or process has neither ended nor become a zombie."""
    try:
        return stat_of(tid)[STATE] not in (b"Z", b"X")
    except OSError:
        return False


def has_ended(pid: int, tid: int = 0) -> bool:
    """Whether a thread has ended; with ``tid`` 0, whether all threads of the process have, of which the first may end
    before others."""
    if tid:
        return not is_alive(tid)
    try:
        return not any(is_alive(int(name)) for name in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return True


def thread_with_memory(pid: int) -> int:
    """The thread by which /proc tells of the memory and the program of a process: its main thread or, once that has
    ended (pthread_exit(3)) and has neither, another one. The main thread, if all have ended."""
    if is_alive(pid):
        return pid
    try:
        others = sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return pid
    return next((tid for tid in others if is_alive(tid)), pid)


def process_of(tid: int) -> int | None:
    """The process that a thread belongs to; None if there is no such thread."""
    try:
        return int(status_of(tid)[b"Tgid"])
    except (OSError, KeyError, ValueError):
        return None


def cpu_time(pid: int) -> float:
    """The CPU time of a process in seconds, in itself and in the kernel; 0 once it has gone."""
    try:
        fields = stat_of(pid)
    except OSError:
        return 0
    return (int(fields[USER_TIME]) + int(fields[SYSTEM_TIME])) / os.sysconf("SC_CLK_TCK")


def reap(pid: int, seconds: float) -> None:
    """Wait for a child to end, for ``seconds`` at most. A child that does not end in time becomes init's in the end."""
    with contextlib.suppress(OSError):
        ended = os.pidfd_open(pid)
        try:
            readable(ended, seconds)
            os.waitpid(pid, os.WNOHANG)
        finally:
            os.close(ended)


def is_going(tid: int) -> bool:
    """Whether a thread has ended, or does so within some milliseconds: shortly before its end is visible it cannot be
    seized any more."""
    for _ in range(10):
        if not is_alive(tid):
            return True
        time.sleep(0.001)
    return False


def turns(pid: int, tid: int) -> int:
    """How often the thread was given a processor (Documentation/scheduler/sched-stats.rst); 0 if that is not known."""
    try:
        with open(f"/proc/{pid}/task/{tid}/schedstat", "rb", buffering=0) as file:
            return int(file.read().split()[2])
    except OSError:
        return 0
