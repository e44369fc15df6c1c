# SPDX-License-Identifier: LGPL-2.1-or-later
"""The numbers of processes and threads in a PID namespace that is not ours (pid_namespaces(7)), as in a container.

A thread knows only its number in its own namespace. From outside both are known: ``NSpid`` of /proc/PID/status
(proc(5)) has all of its numbers, ours first and its own last.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from gilk.targets.alive import proc_link
from gilk.targets.status import status_of

Thread = tuple[int, int]  # pid, tid


def own_number(tid: int) -> int:
    """The number of a process or thread in its own namespace; 0 when it has gone. ``tid``: its number in ours."""
    try:
        numbers = status_of(tid).get(b"NSpid", b"").split()
    except OSError:
        return 0
    return int(numbers[-1]) if numbers else tid


def foreign(pid: int) -> frozenset[str]:
    """The PID namespaces that are not ours among those of a process and its future children."""
    its = frozenset((_namespace(pid, "pid"), _namespace(pid, "pid_for_children")))
    return its - {_namespace(os.getpid(), "pid"), ""}


def is_here(pid: int) -> bool:
    """Whether a process is in our own PID namespace; True if that cannot be seen."""
    return _namespace(pid, "pid") in (_namespace(os.getpid(), "pid"), "")


def threads(namespaces: frozenset[str]) -> Iterator[tuple[Thread, Thread]]:
    """All threads in one of these namespaces: (pid, tid) there, and (pid, tid) in ours."""
    for name in os.listdir("/proc"):
        if name.isdecimal() and _namespace(int(name), "pid") in namespaces:
            inner = own_number(int(name))
            with contextlib.suppress(OSError):
                for tid in map(int, os.listdir(f"/proc/{name}/task")):
                    yield (inner, own_number(tid)), (int(name), tid)


def _namespace(pid: int, kind: str) -> str:
    """The name of a process's namespace; empty when the process has gone, or may not be looked into."""
    try:
        return proc_link(pid, f"ns/{kind}")
    except OSError:
        return ""
