# SPDX-License-Identifier: LGPL-2.1-or-later
"""Make sure that every process which a run of the tests has started ends with the run, however that ends.

guard() splits a process in three, of which the last goes on:

    the caller's own ── whoever started it knows this one, and gets from it the status of the work
    └─ the reaper    ── in a process group of its own, deaf to signals; orphans from below become its children
       └─ the work   ── guard() returns here

When the work or the caller's process ends, the reaper kills all processes below it: programs that tests have launched,
keepers of gilk, virtual machines, pipelines that daemons have left. When somebody kills the reaper, the caller's
process does it. prctl(PR_SET_CHILD_SUBREAPER) makes this possible without a list of processes: neither setsid() nor a
second fork() leads out of the tree.

As a program, it runs Python: ``python tests/guard.py WORDS...`` is ``python WORDS...`` under guard. tests/conftest.py
starts each worker of xdist so, so that the worker has a reaper of its own: what a killed worker leaves is gone while
the others go on.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # <linux/prctl.h>
_FORWARDED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_CALLER_GONE = signal.SIGUSR1
_SI_USER = 0  # siginfo_t.si_code of kill(2); a terminal sends its signals to the work as well
_LIMIT = 60  # seconds that killed processes may take to be gone

_libc = ctypes.CDLL(None, use_errno=True)


def guard() -> None:
    """Split the process in three, and return in the grandchild. The caller must have a single thread."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*_FORWARDED, _CALLER_GONE, signal.SIGCHLD})
    caller, group = os.getpid(), os.getpgrp()
    _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    told, tells = os.pipe()
    if reaper := os.fork():
        os.close(tells)
        _stand_for(reaper, told)
    os.close(told)
    _become_reaper(caller)
    reaper = os.getpid()
    if work := os.fork():
        _reap(work, tells)
    os.close(tells)
    _die_with(reaper, signal.SIGKILL)
    with suppress(OSError):
        os.setpgid(0, group)  # a terminal's own signals reach the work too
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


# The caller's own process.


def _stand_for(reaper: int, told: int) -> NoReturn:
    """Forward signals to the work, and end as the work has ended. This is the part of the caller's process."""
    work = _number(told)
    while not _gone(reaper):
        came = signal.sigwaitinfo({*_FORWARDED, signal.SIGCHLD})
        if came.si_signo in _FORWARDED and came.si_code == _SI_USER and work:
            with suppress(ProcessLookupError):
                os.kill(work, came.si_signo)
    end_all()  # finds processes only if the reaper itself was killed
    status = _number(told)
    if status is None:
        os._exit(1)
    if os.WIFSIGNALED(status):
        _end_by(os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def _number(told: int) -> int | None:
    """The next number from the reaper: first the process number of the work, then its status. None if the reaper was
    killed before it sent one."""
    data = os.read(told, 4)
    return int.from_bytes(data, "little") if data else None


def _gone(pid: int) -> bool:
    return os.waitpid(pid, os.WNOHANG)[0] == pid


def _end_by(number: int) -> None:
    """End this process by the signal that ended the work, but without a memory dump, as there is one of the work
    already."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)


# The reaper.


def _become_reaper(caller: int) -> None:
    with suppress(OSError):
        os.setpgid(0, 0)
    _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _die_with(caller, _CALLER_GONE)


def _die_with(parent: int, number: int) -> None:
    """Have the kernel send signal ``number`` to this process when ``parent`` ends."""
    _libc.prctl(_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _reap(work: int, tells: int) -> NoReturn:
    """The reaper's part: wait for the work, kill all processes below, and tell the caller. Standard files are closed
    first, so that a reader of the work's output does not wait for the reaper."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    _tell(tells, work)
    status = _status(work)
    end_all()
    _tell(tells, status)
    os._exit(0)


def _tell(tells: int, number: int) -> None:
    with suppress(OSError):
        os.write(tells, number.to_bytes(4, "little"))


def _status(work: int) -> int:
    """Wait for the work, and return its wait status; that of SIGKILL if the caller's process has ended first."""
    while signal.sigwaitinfo({_CALLER_GONE, signal.SIGCHLD}).si_signo == signal.SIGCHLD:
        for pid, status in _ended():
            if pid == work:
                return status
    return int(signal.SIGKILL)


def _ended() -> Iterator[tuple[int, int]]:
    """The children that have ended, adopted ones among them, with their statuses."""
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found


def end_all() -> None:
    """Kill every process below this one until none is left, but for a minute at most."""
    deadline = time.monotonic() + _LIMIT
    while time.monotonic() < deadline:
        for pid in _below(os.getpid()):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if _childless():
            return
        time.sleep(0.01)


def _childless() -> bool:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def _below(top: int) -> list[int]:
    """``top`` and every process that descends from it."""
    known: dict[int, list[int]] = {}
    for pid, parent in _parents():
        known.setdefault(parent, []).append(pid)
    found = [top]
    for pid in found:
        found += known.get(pid, ())
    return found[1:]


def _parents() -> Iterator[tuple[int, int]]:
    """Every process with its parent (proc(5)). Zombies are included, because their threads may still run."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                yield int(entry.name), int(fields[1])


if __name__ == "__main__":
    guard()
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
