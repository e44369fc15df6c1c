# SPDX-License-Identifier: LGPL-2.1-or-later
"""Refuses processes that execute no program: threads of the kernel, and processes that have ended."""

from __future__ import annotations

from typing import Final

from gilk.errors import TargetError
from gilk.targets.alive import has_ended
from gilk.targets.stat import FLAGS, stat_of
from gilk.targets.threads import OwnThreads

_KERNEL_THREAD: Final = 0x200000  # PF_KTHREAD of linux/sched.h


def check_program(pid: int) -> None:
    """Raises TargetError `kernel-thread`, and `no-such-process` for a process that has ended."""
    try:
        fields = stat_of(pid)
    except OSError:
        raise TargetError("no-such-process", f"there is no process {pid}") from None
    if int(fields[FLAGS]) & _KERNEL_THREAD:
        what = f"{pid} is a thread of the kernel, {OwnThreads().name(pid, pid)}, which executes no program"
        hint = "functions of the kernel are kernel:FUNCTION, as in gilk run --on lab -i kernel:vfs_read:entry=count"
        raise TargetError("kernel-thread", what, hint)
    if has_ended(pid):
        why = f"process {pid} has ended, and its parent has not asked for its status yet (a zombie)"
        raise TargetError("no-such-process", why)
