# SPDX-License-Identifier: LGPL-2.1-or-later
"""Threads of a process in which the kernel works for it, and that never execute its code.

io_uring's workers (iou-wrk, iou-sqp) and vhost's are listed among a process's threads and can be traced like them. They
have no registers of the program's, never return to it, and one that is interrupted fails what it does with EINTR.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache

from gilk.targets.stat import FLAGS, stat_of

#: linux/sched.h. The second meant something else before Linux 6.4, in whose threads of that kind the first is set, too.
_IO_WORKER, _USER_WORKER = 0x10, 0x4000
_USER_WORKER_SINCE = (6, 4)


def is_kernels(pid: int, tid: int) -> bool:
    """Whether a thread is the kernel's; False for one that has ended. The first thread of a process never is, and is
    not looked at."""
    if tid == pid:
        return False
    try:
        return says_kernels(stat_of(pid, tid))
    except OSError:
        return False


def says_kernels(fields: Sequence[bytes]) -> bool:
    """As is_kernels(), by what stat_of() says of a thread."""
    return bool(int(fields[FLAGS]) & _workers())


@cache
def _workers() -> int:
    major, minor = os.uname().release.split(".")[:2]
    known = (int(major), int("".join(filter(str.isdigit, minor)))) >= _USER_WORKER_SINCE
    return _IO_WORKER | _USER_WORKER if known else _IO_WORKER
