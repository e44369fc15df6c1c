# SPDX-License-Identifier: LGPL-2.1-or-later
"""Recognises threads of a process in which the kernel works for it, and which never execute the process's code.

io_uring's workers (iou-wrk, iou-sqp) and vhost's are listed among a process's threads and can be traced like them. They
have no registers of the program's and never return to it, and interrupting one makes its work fail with EINTR.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache

from gilk.targets.stat import FLAGS, stat_of

#: PF_ flags of linux/sched.h. The second meant something else before Linux 6.4, where threads of that kind have the
#: first set, too.
_IO_WORKER, _USER_WORKER = 0x10, 0x4000
_KERNEL_PROCESS = 0x200000
_USER_WORKER_SINCE = (6, 4)


def is_kernels(pid: int, tid: int) -> bool:
    """Whether a thread is one of the kernel's; False if it has ended. The first thread of a process never is, and is
    not looked at."""
    if tid == pid:
        return False
    try:
        return says_kernels(stat_of(pid, tid))
    except OSError:
        return False


def is_kernels_process(pid: int) -> bool:
    """Whether a process is one of the kernel's, with no memory of its own. Raises OSError."""
    return bool(int(stat_of(pid)[FLAGS]) & _KERNEL_PROCESS)


def says_kernels(fields: Sequence[bytes]) -> bool:
    """Whether the fields that stat_of() gives for a thread say that it is one of the kernel's."""
    return bool(int(fields[FLAGS]) & _workers())


@cache
def _workers() -> int:
    major, minor = os.uname().release.split(".")[:2]
    known = (int(major), int("".join(filter(str.isdigit, minor)))) >= _USER_WORKER_SINCE
    return _IO_WORKER | _USER_WORKER if known else _IO_WORKER
