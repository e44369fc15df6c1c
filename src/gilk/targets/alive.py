# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether a process, or a thread, is alive, and how long it has run."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Final, TypeVar

from gilk.targets.kernel_threads import is_kernels_process
from gilk.targets.stat import STATE, SYSTEM_TIME, THREADS, USER_TIME, stat_of
from gilk.targets.status import status_of
from gilk.targets.wire import readable

T = TypeVar("T")
_GONE: Final = b""
_ZOMBIE: Final = b"Z"
_ENDED: Final = (_ZOMBIE, b"X", _GONE)
_TAKEOVER: Final = 0.0005  # seconds between two looks while a thread takes the place of the main thread
_TAKEOVER_WITHIN: Final = 1.0  # the most seconds for that


def is_alive(tid: int) -> bool:
    """Whether a thread or process has neither ended nor become a zombie."""
    return _state(tid) not in _ENDED


def has_ended(pid: int, tid: int = 0) -> bool:
    """Whether a thread has ended; with ``tid`` 0, whether all threads of the process have, of which the first may end
    before others."""
    if tid:
        return not is_alive(tid)
    until = time.monotonic() + _TAKEOVER_WITHIN
    while (ended := _all_ended(pid)) is None and time.monotonic() < until:
        time.sleep(_TAKEOVER)
    return bool(ended)


def _all_ended(pid: int) -> bool | None:
    """Whether all threads of a process have ended; None if that cannot be told just now: a thread that executes a
    program takes the place of the main thread, which has ended, and for a moment /proc lists neither of them, or only
    one that has ended."""
    states = list[bytes]()
    with contextlib.suppress(OSError):
        states = [_state(int(name)) for name in os.listdir(f"/proc/{pid}/task")]
    if any(state not in _ENDED for state in states):
        return False
    try:
        main = stat_of(pid)
    except OSError:
        return None if _is_known(pid) else True
    ended = len([state for state in states if state != _GONE])
    return True if main[STATE] == _ZOMBIE and int(main[THREADS]) <= ended else None


def _state(tid: int) -> bytes:
    """The state of a thread (proc_pid_stat(5)); _GONE if there is no such thread."""
    try:
        return stat_of(tid)[STATE]
    except OSError:
        return _GONE


def _is_known(pid: int) -> bool:
    """Whether the kernel knows a process with this pid, which may be a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
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


def of_memory(pid: int, ask: Callable[[int], T]) -> T:
    """The result of ``ask`` for the thread with the memory (thread_with_memory), whose tid it is given.

    Another thread may take over that part just then, as it does when it executes a program: de_thread() in the kernel's
    fs/exec.c gives it the number of the main thread. So as long as the process has not ended, an ``ask`` that found no
    such file or thread is called again; but a process of the kernel's has no memory, and gets none. Raises the OSError
    of the last call.
    """
    until = time.monotonic() + _TAKEOVER_WITHIN
    while True:
        try:
            return ask(thread_with_memory(pid))
        except (FileNotFoundError, ProcessLookupError):
            if time.monotonic() > until or _has_none(pid):
                raise
            time.sleep(_TAKEOVER)


def memory_file(pid: int) -> int:
    """A descriptor of the memory of a process, open for reading and writing (proc(5), /proc/PID/mem). Raises
    OSError."""
    return of_memory(pid, lambda tid: os.open(f"/proc/{tid}/mem", os.O_RDWR | os.O_CLOEXEC))


def proc_link(pid: int, name: str) -> str:
    """The target of a link below /proc/PID that is about the process's memory: exe, root, ns/mnt. Raises OSError."""
    return of_memory(pid, lambda tid: os.readlink(f"/proc/{tid}/{name}"))


def _has_none(pid: int) -> bool:
    """Whether a process has no memory, for it has ended or is the kernel's."""
    with contextlib.suppress(OSError):
        if is_kernels_process(pid):
            return True
    return has_ended(pid)


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
