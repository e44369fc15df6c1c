# SPDX-License-Identifier: LGPL-2.1-or-later
"""Numbers of processes and threads in a PID namespace that is not ours (pid_namespaces(7)), as in a container.

A thread can tell by which number it goes in its own namespace only. From outside both are known: ``NSpid`` of
/proc/PID/status (proc(5)) has all of its numbers, ours first and its own last.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from gilk.targets.status import status_of

Thread = tuple[int, int]  # pid, tid


def own_number(tid: int) -> int:
    """That a process or thread goes by in its own namespace; 0 when it has gone. ``tid``: ours."""
    try:
        numbers = status_of(tid).get(b"NSpid", b"").split()
    except OSError:
        return 0
    return int(numbers[-1]) if numbers else tid


def foreign(pid: int) -> frozenset[str]:
    """The namespaces, of those that a process and its children to come are in, that are not ours."""
    return frozenset((_namespace(pid, "pid"), _namespace(pid, "pid_for_children"))) - {_namespace("self", "pid"), ""}


def is_here(pid: int) -> bool:
    """Whether a process is in our own namespace, as far as can be seen."""
    return _namespace(pid, "pid") in (_namespace("self", "pid"), "")


def threads(namespaces: frozenset[str]) -> Iterator[tuple[Thread, Thread]]:
    """All that are in one of these: their own numbers, and ours."""
    for name in os.listdir("/proc"):
        if name.isdecimal() and _namespace(name, "pid") in namespaces:
            inner = own_number(int(name))
            with contextlib.suppress(OSError):
                for tid in map(int, os.listdir(f"/proc/{name}/task")):
                    yield (inner, own_number(tid)), (int(name), tid)


def _namespace(pid: int | str, kind: str) -> str:
    """Empty when it has gone, or when we may not look."""
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return ""
