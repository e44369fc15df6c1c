# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds processes that share one memory without being threads of one process: clone(2) with CLONE_VM, without
CLONE_THREAD.

The kernel says of two processes whether they share their memory (kcmp(2)), to a process that may trace both. It has no
list of them, so each process of the system is compared. A child of vfork() shares its parent's memory until it executes
a program or ends.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterable

from gilk.errors import TargetError
from gilk.targets.alive import thread_with_memory
from gilk.targets.stat import PARENT, VIRTUAL_SIZE, stat_of

_KCMP, _VM = 312, 1
_CLONES = (b"56", b"58", b"435")  # clone, vfork, clone3: a thread sleeps in these only to wait for a vfork child
_libc = ctypes.CDLL(None, use_errno=True)


class MemorySharing:
    """The processes that share the memory of ``pid``. The list of all processes is read again when new ones were
    made."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.known: set[int] = set()  # processes that shared the memory at the last comparison
        self._seen: set[int] = set()
        self._last = b""  # the last pid that the kernel had given out at that time

    def look(self) -> None:
        """Compare all processes, if new ones were made since the last time: that takes some microseconds for each
        process."""
        if self._last != _last_number():
            self._seen = set()
        self._look_at_new()

    def others(self) -> list[int]:
        """The other processes that share the memory, parents before their children. Raises TargetError
        `no-such-process`."""
        self._look_at_new()
        if not self.known:
            return []
        thread = thread_with_memory(self._pid)
        self.known = {pid for pid in self.known if is_same_memory(thread, pid)}
        return sorted(self.known, key=lambda pid: len(_ancestors(pid, self.known | {self._pid})))

    def _look_at_new(self) -> None:
        last = _last_number()
        if last == self._last:
            return
        thread, present = thread_with_memory(self._pid), _processes()
        self.known |= {pid for pid in present - self._seen if is_same_memory(thread, pid)} - {self._pid}
        self._seen, self._last = present, last


def is_same_memory(one: int, other: int) -> bool:
    """Whether two threads have the same memory; False if ``one`` has none, or if we may not know.

    A thread that ends gives its memory up before its end can be seen, and the kernel says of two without memory, as its
    own threads are, that they have the same. It never gets any again, so one that has some afterwards had some.
    """
    return _compare(one, other) == 0 and _has_memory(one)


def _has_memory(tid: int) -> bool:
    try:
        return stat_of(tid)[VIRTUAL_SIZE] != b"0"
    except OSError:
        return False


def waits_for_child(pid: int) -> bool:
    """Whether a thread of the process waits for a child that shares its memory, as vfork(2) does."""
    calls = (_system_call(f"/proc/{pid}/task/{tid}/syscall") for tid in _threads(pid))
    return any(call in _CLONES for call in calls)


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def _system_call(path: str) -> bytes:
    """The number of the system call that a thread sleeps in, as text; other text for a thread that runs, empty if it
    has gone."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read().split()[0]
    except (OSError, IndexError):
        return b""


def can_be_told() -> bool:
    """Whether kcmp(2) works: the kernel may have been built without it, or a seccomp filter may not let it pass."""
    return _compare(os.getpid(), os.getpid()) == 0


def _compare(one: int, other: int) -> int:
    """The result of kcmp(2): 0 if both have the same memory; 1, 2 or 3 if not; -errno if that cannot be told."""
    result = int(_libc.syscall(_KCMP, one, other, _VM, 0, 0))
    return result if result >= 0 else -(ctypes.get_errno() or errno.EINVAL)


def _last_number() -> bytes:
    """The last pid or tid that was given out in our PID namespace (proc(5), loadavg)."""
    with open("/proc/loadavg", "rb", buffering=0) as file:
        return file.read().split()[-1]


def _processes() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdecimal()}


def _ancestors(pid: int, among: Iterable[int]) -> list[int]:
    """The parent of a process, its parent's parent, and so on, as long as they are ``among`` these."""
    found: list[int] = []
    while (pid := parent(pid)) in among and pid not in found:
        found.append(pid)
    return found


def parent(pid: int) -> int:
    """The pid of the parent; 0 when the process has gone."""
    try:
        return int(stat_of(pid)[PARENT])
    except OSError:
        return 0


def shared_memory(pid: int, other: int) -> TargetError:
    return TargetError(
        "shared-memory",
        f"process {other} executes the memory of process {pid}, and may not be stopped",
        "be the owner of both, or have CAP_SYS_PTRACE",
    )
