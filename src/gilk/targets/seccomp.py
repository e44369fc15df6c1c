# SPDX-License-Identifier: LGPL-2.1-or-later
"""The filters of system calls that a process has set up for itself (seccomp(2)), as compared with those that gilk runs
under.

Only by making a call can one find out what a filter does about it, and a sandbox is likely to kill for it. With
CAP_SYS_ADMIN filters can be suspended for a while. Without it, a process that has more filters than gilk itself is left
alone; filters that a container has put on all its processes treat both alike, and refuse a call rather than kill.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
from collections.abc import Iterator

from gilk.targets import ptrace
from gilk.targets.status import status_of
from gilk.values import dataclass

STRICT = 1  # the strict mode allows read, write, exit and sigreturn, and has no filters to count


@dataclass(frozen=True, slots=True)
class Filters:
    """The values of ``Seccomp`` and ``Seccomp_filters`` of proc(5)."""

    mode: int
    count: int

    def may_kill(self, ours: Filters) -> bool:
        return self.mode == STRICT or self.count > ours.count


def filters(tid: int | str) -> Filters:
    """The filters of a thread. Raises OSError when there is no such thread."""
    found = status_of(tid)
    return Filters(int(found.get(b"Seccomp", 0)), int(found.get(b"Seccomp_filters", 0)))


@functools.cache
def _ours() -> Filters:
    """The filters that gilk itself was started with; it adds none."""
    return filters("self")


def may_kill(pid: int) -> bool:
    """Whether any thread of the process has a filter of its own, which may kill it for a system call."""
    with contextlib.suppress(OSError):
        return any(filters(f"{pid}/task/{tid}").may_kill(_ours()) for tid in os.listdir(f"/proc/{pid}/task"))
    return False


@contextlib.contextmanager
def suspended(tid: int, options: int = ptrace.O_TRACESYSGOOD) -> Iterator[None]:
    """A context in which a stopped thread's filters, if it has any, are suspended. ``options``: its ptrace options.

    Raises PermissionError when they cannot be suspended, and might kill the process.
    """
    own = filters(tid)
    free = own.mode == 0 or not _suspend(tid, options)
    if free and own.may_kill(_ours()):
        raise PermissionError(errno.EPERM, "it has a seccomp filter of its own, which may kill it for a system call")
    try:
        yield
    finally:
        if not free:
            with contextlib.suppress(OSError):
                ptrace.call(ptrace.SETOPTIONS, tid, 0, options)


def _suspend(tid: int, options: int) -> bool:
    """Whether the filters could be suspended: this takes CAP_SYS_ADMIN, no filter on gilk itself, and a kernel with
    CONFIG_CHECKPOINT_RESTORE."""
    try:
        ptrace.call(ptrace.SETOPTIONS, tid, 0, options | ptrace.O_SUSPEND_SECCOMP)
    except ProcessLookupError:
        raise
    except OSError:
        return False
    return True
