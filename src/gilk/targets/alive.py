# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether a process, or a thread, is there."""

from __future__ import annotations

import contextlib
import os
import time

from gilk.targets.stat import STATE, SYSTEM_TIME, USER_TIME, stat_of
from gilk.targets.wire import readable


def is_alive(tid: int) -> bool:
    """It has not ended, nor become a zombie."""
    try:
        return stat_of(tid)[STATE] not in (b"Z", b"X")
    except OSError:
        return False


def has_ended(pid: int, tid: int = 0) -> bool:
    """Whether a thread has; with 0, whether all of the process has, of which the first thread may end before others."""
    if tid:
        return not is_alive(tid)
    try:
        return not any(is_alive(int(name)) for name in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return True


def cpu_time(pid: int) -> float:
    """Seconds that the process has run for, in itself and in the kernel; 0 once it has gone."""
    try:
        fields = stat_of(pid)
    except OSError:
        return 0
    return (int(fields[USER_TIME]) + int(fields[SYSTEM_TIME])) / os.sysconf("SC_CLK_TCK")


def reap(pid: int, seconds: float) -> None:
    """Wait for a child to end, for so long at most: who does not is let alone, and is init's in the end."""
    with contextlib.suppress(OSError):
        ended = os.pidfd_open(pid)
        try:
            readable(ended, seconds)
            os.waitpid(pid, os.WNOHANG)
        finally:
            os.close(ended)


def is_going(tid: int) -> bool:
    """Whether it has ended, or is about to: for a moment before that is seen it cannot be seized any more."""
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
