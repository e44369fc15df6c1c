# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory that a target and gilk both have mapped. The target makes it by system calls of its own: it pays for it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
from collections.abc import Callable, Iterator

from gilk.splice.space import Occupied
from gilk.target.remote import CLOSE, MADV_DONTDUMP, MADVISE, Remote

_MEMORY_AT, _STEP, _PLACES = 0x2200_0000_0000, 1 << 36, 512


def share(call: Remote, pid: int, name: str, size: int, place: Callable[[int, int], int]) -> tuple[int, int]:
    """A file descriptor of ours, and its address in the target, where ``place(size, fd)`` maps it."""
    fd = call.memory_file(name)
    try:
        mine = _open(pid, fd, size)
        try:
            address = place(size, fd)
        except OSError:
            os.close(mine)
            raise
        with contextlib.suppress(OSError):
            call.call(MADVISE, address, size, MADV_DONTDUMP)
    finally:
        call.call(CLOSE, fd)
    return mine, address


def room_for_memory(space: Occupied, size: int) -> int:
    """A wish: the same in every process and every time, as long as it is free there, since code is compiled for it."""
    starts = (_MEMORY_AT + number * _STEP for number in range(_PLACES))
    return next((at for at in starts if space.free(at, at + size)), _MEMORY_AT)


def _open(pid: int, fd: int, size: int) -> int:
    mine = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
    with _files_of_any_size():
        os.ftruncate(mine, size)
    with contextlib.suppress(OSError):  # a target that could shrink it would kill who reads it
        fcntl.fcntl(mine, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return mine


@contextlib.contextmanager
def _files_of_any_size() -> Iterator[None]:
    """A limit on the size of the user's files is not meant for memory, of which most is never touched."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
