# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory that a target and gilk both have mapped. The target makes it by system calls of its own.

gilk checks what a target says about its memory. A process that shares the target's table of descriptors, and is no
thread of it, is not stopped with it: it can put any file in the place of the memory that was just made. So the
descriptor is proven to be of fresh memory before it is opened for writing, the memory is sealed against all changes of
its size, and the target's mapping is compared with the memory that gilk holds.

The keeper does not make the memory instead: a process can be handed a file over a socket only, by two more system calls
that its sandbox may refuse, and another file could be put in its place just as well before it is mapped; rules about
one user's files that another executes (SELinux) would be in the way; and the process that first touches a page pays for
it either way.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import re
import resource
import stat
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from gilk.errors import TargetError
from gilk.splice.allocator import PAGE, Occupied
from gilk.targets import handing
from gilk.targets.bounds import backing_at
from gilk.targets.status import status_of
from gilk.targets.system_calls import CLOSE, MADV_DONTDUMP, MADVISE, SystemCalls

_MEMORY_AT, _STEP, _PLACES = 0x2200_0000_0000, 1 << 36, 512
_EXEC_SEAL = 0x20  # F_SEAL_EXEC, set by the system where vm.memfd_noexec says so (Linux 6.3)
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_libc = ctypes.CDLL(None)
_MOUNT = re.compile(rb"^mnt_id:\s*(\d+)$", re.MULTILINE)
_FILES = 3  # index in ``Uid``: real, effective, saved, file system


class Taking(Protocol):
    """The means by which gilk maps memory that a target has made, too."""

    def take(self, tid: int, fd: int, size: int) -> int:
        """A file descriptor here of the memory that the target's thread ``tid`` has as ``fd``; the memory gets
        ``size``. Raises OSError, TargetError `not-our-memory`."""
        ...

    def check_mapped(self, address: int, size: int, mine: int) -> None:
        """Raises TargetError `not-our-memory` where the target has mapped something else than ``mine`` there."""
        ...

    def hand_over(self, call: SystemCalls, mine: int) -> int:
        """A descriptor of the target's of the file that gilk has as ``mine``. Raises OSError, TargetError
        `cannot-share`."""
        ...


class Taken:
    """Takes memory from process ``pid`` of this machine."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def take(self, tid: int, fd: int, size: int) -> int:
        return _open(self._pid, tid, fd, size)

    def check_mapped(self, address: int, size: int, mine: int) -> None:
        _check_mapped(self._pid, address, size, mine)

    def hand_over(self, call: SystemCalls, mine: int) -> int:
        return handing.hand_over(call, mine)


def share(call: SystemCalls, taking: Taking, name: str, size: int, place: Callable[[int, int], int]) -> tuple[int, int]:
    """Have the target make memory called ``name``; returns a file descriptor of it here, and its address in the target,
    where ``place(size, fd)`` maps it.

    The file has that size for as long as it exists. Raises OSError, TargetError `not-our-memory`.
    """
    fd = call.memory_file(name)
    try:
        mine = taking.take(call.tid, fd, size)
        try:
            address = place(size, fd)
            taking.check_mapped(address, size, mine)
        except BaseException:
            os.close(mine)
            raise
    except BaseException:
        _close(call, fd)
        raise
    try:
        _close(call, fd)
    except BaseException:
        os.close(mine)
        call.unmap(address, size)
        raise
    with contextlib.suppress(OSError):
        call.call(MADVISE, address, size, MADV_DONTDUMP)
    return mine, address


def share_again(call: SystemCalls, taking: Taking, mine: int, size: int, place: Callable[[int, int], int]) -> int:
    """Have the target map memory that another target has made; returns its address, where ``place(size, fd)`` maps it.

    Raises OSError, TargetError `cannot-share`, `not-our-memory`.
    """
    fd = taking.hand_over(call, mine)
    try:
        address = place(size, fd)
        taking.check_mapped(address, size, mine)
    finally:
        _close(call, fd)
    with contextlib.suppress(OSError):
        call.call(MADVISE, address, size, MADV_DONTDUMP)
    return address


def sealed(name: str, size: int) -> int:
    """A descriptor of fresh memory of this process's own, whose size is sealed. Raises OSError."""
    mine = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with _files_of_any_size():
            os.ftruncate(mine, size)
        fcntl.fcntl(mine, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(mine)
        raise
    return mine


def is_sealed(fd: int, size: int) -> bool:
    """Whether a descriptor that another process has sent is of memory that can be mapped without harm: its size is
    sealed, it can be written to, and it is nothing but memory. Files that may never answer are not asked."""
    try:
        if _seals(fd) != _SEALS or _mount(fd) != _mount_of_memory():
            return False
        return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR and os.fstat(fd).st_size == size
    except (OSError, ValueError):  # ``fd`` is no descriptor
        return False


def room_for_memory(space: Occupied, size: int) -> int:
    """The address to ask for when mapping shared memory: the same in every process and every time, as long as it is
    free there, since code is compiled for it."""
    starts = (_MEMORY_AT + number * _STEP for number in range(_PLACES))
    return next((at for at in starts if space.free(at, at + size)), _MEMORY_AT)


def _close(call: SystemCalls, fd: int) -> None:
    try:
        call.call(CLOSE, fd)
    except OSError as error:
        if error.errno != errno.EBADF:  # another process has closed it first
            raise


def _open(pid: int, tid: int, fd: int, size: int) -> int:
    mine = _taken(pid, tid, fd)
    try:
        _check_fresh(pid, tid, mine)
        with _files_of_any_size():
            os.ftruncate(mine, size)
        _seal(pid, mine, size)
    except BaseException:
        os.close(mine)
        raise
    return mine


def _taken(pid: int, tid: int, fd: int) -> int:
    """The file that thread ``tid`` has as ``fd``, opened once more, if it is memory of memfd_create(2).

    The first descriptor is only a place in a file system (O_PATH): it has no effect on the file, and asks nothing of a
    file system, which may be the target's own and never answer. pidfd_getfd(2) would not do: containers forbid it, it
    looks in the first thread's table only, and closing the descriptor again may have to wait for such a file system.
    """
    try:
        place = os.open(f"/proc/{pid}/task/{tid}/fd/{fd}", os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        raise _not_ours(pid) from None
    try:
        if _mount(place) != _mount_of_memory():
            raise _not_ours(pid)
        with _with_rights_of(tid):
            return os.open(f"/proc/self/fd/{place}", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)  # no wait for leases
    except (PermissionError, BlockingIOError):
        raise _not_ours(pid) from None
    finally:
        os.close(place)


@contextlib.contextmanager
def _with_rights_of(tid: int) -> Iterator[None]:
    """A context in which files are opened with no more rights than the thread's user has (setfsuid(2)), if we are
    root."""
    own, user = os.geteuid(), _user(tid)
    if own or not user:
        yield
        return
    _libc.setfsuid(user)
    try:
        yield
    finally:
        _libc.setfsuid(own)


def _mount(fd: int) -> int:
    """The mount that a descriptor's file is of; -1 if it is not known. Memory lies in a mount of the kernel's own,
    where nobody can open files by name."""
    with open(f"/proc/self/fdinfo/{fd}", "rb", buffering=0) as file:
        found = _MOUNT.search(file.read())
    return int(found[1]) if found else -1


@functools.cache
def _mount_of_memory() -> int:
    own = os.memfd_create("gilk", os.MFD_CLOEXEC)
    try:
        return _mount(own)
    finally:
        os.close(own)


def _check_fresh(pid: int, tid: int, mine: int) -> None:
    """Check that the memory is empty, has no name, belongs to the thread's user and has no seals yet. Raises
    TargetError `not-our-memory`."""
    found = os.fstat(mine)
    fresh = stat.S_ISREG(found.st_mode) and not found.st_nlink and not found.st_size and found.st_uid == _user(tid)
    if not fresh or _seals(mine):
        raise _not_ours(pid)


def _seal(pid: int, mine: int, size: int) -> None:
    """Seal the size for good: if the memory could be shrunk, reading it would kill the reader (SIGBUS). Raises
    TargetError `not-our-memory`."""
    with contextlib.suppress(OSError):  # another process may have sealed it first; the seals are compared
        fcntl.fcntl(mine, fcntl.F_ADD_SEALS, _SEALS)
    if _seals(mine) != _SEALS or os.fstat(mine).st_size != size:
        raise _not_ours(pid)


def check_sealed(mine: int, size: int) -> None:
    """Check that a descriptor is of memory that has room for ``size`` bytes for as long as it exists. Raises
    TargetError `not-our-memory`."""
    found = os.fstat(mine)
    if _mount(mine) != _mount_of_memory() or _seals(mine) != _SEALS or found.st_size < size or found.st_nlink:
        raise TargetError("not-our-memory", "the driver has made memory that anybody may shrink", "gilk driver load")


def _seals(mine: int) -> int:
    """The seals of a descriptor. Raises OSError for a file that cannot have any. Other files in memory
    (shm_overview(7)) have F_SEAL_SEAL only."""
    return fcntl.fcntl(mine, fcntl.F_GET_SEALS) & ~_EXEC_SEAL


def _check_mapped(pid: int, address: int, size: int, mine: int) -> None:
    """Check that the target has mapped gilk's memory there, from its beginning on. Another file would do gilk no harm:
    the code that gilk writes would not be executed then, and the data that it reads would stay 0. Raises TargetError
    `not-our-memory`."""
    held, end = os.fstat(mine), address + size + PAGE - 1 & -PAGE
    found = backing_at(pid, address)
    if found is None or found.end < end or found.offset != address - found.start:
        raise _not_ours(pid)
    if (found.device, found.inode) != (held.st_dev, held.st_ino):
        raise _not_ours(pid)


def _user(tid: int) -> int:
    """The user who owns the files that a thread makes."""
    return int(status_of(tid)[b"Uid"].split()[_FILES])


def _not_ours(pid: int) -> TargetError:
    return TargetError(
        "not-our-memory",
        f"process {pid} did not make the memory that gilk asked for: something else is there",
        "a process that shares its descriptors interferes; nothing of what it has there was changed",
    )


@contextlib.contextmanager
def _files_of_any_size() -> Iterator[None]:
    """A context without the soft limit on file sizes, which is not meant for memory that is mostly never touched."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
