# SPDX-License-Identifier: LGPL-2.1-or-later
"""A target's own system calls, and their use: memory, mapped where it is wanted.

A subclass makes them (`call`): a borrowed thread makes those of a process (remote.py).
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence

from gilk.errors import TargetError
from gilk.splice.allocator import PAGE
from gilk.targets.call_list import LOOP, Call, CallList
from gilk.targets.memory import Memory

_ACTION = struct.Struct("<QQQ")
_USER = 0x7FFFFFFFF000  # what a process can map ends here, where it is not asked for more by its address
_DESCRIPTORS = 1 << 31
RT_SIGACTION = 13
MMAP, MPROTECT, MUNMAP, MREMAP, MADVISE, CLOSE, MEMFD_CREATE = 9, 10, 11, 25, 28, 3, 319
_MREMAP_MAYMOVE, _MREMAP_FIXED = 1, 2
_PROT_READ, _PROT_WRITE, _PROT_EXEC = 1, 2, 4
_MAP_SHARED, _MAP_PRIVATE, _MAP_ANONYMOUS, _MAP_NOREPLACE = 1, 2, 0x20, 0x100000
_MAP_NORESERVE = 0x4000
#: Wishes. Where the kernel itself puts so large a mapping, just below the libraries, it is in the way of their puns.
_CODE_AT, _DATA_AT, _RECORD_AT, _LIST_AT = 0x2000_0000_0000, 0x2100_0000_0000, 0x2180_0000_0000, 0x21F0_0000_0000
MADV_DONTDUMP, MADV_WIPEONFORK = 16, 18
_MFD_CLOEXEC, _MFD_ALLOW_SEALING, _MFD_EXEC = 1, 2, 0x10


class SystemCalls(ABC):
    """``memory`` is the target's."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    @property
    @abstractmethod
    def tid(self) -> int:
        """The thread that makes them."""

    @abstractmethod
    def call(self, number: int, *arguments: int) -> int:
        """The result. Raises OSError when the call failed, ProcessLookupError when the thread died, TargetError
        `not-our-call` where it was another call than was asked for."""

    @abstractmethod
    def many(self, place: CallList, calls: Sequence[Call]) -> list[int]:
        """Results of calls, made one after the other until one fails: -errno is then the last.

        Raises ProcessLookupError when the thread died.
        """

    @abstractmethod
    def leave_our_memory(self) -> None:
        """It is going to be unmapped."""

    @abstractmethod
    def leave_code_of_files(self) -> None:
        """It is going to be moved."""

    def map(self, address: int, size: int, protection: int, flags: int, fd: int) -> int:
        """mmap(2), from a file's beginning; the address, which is a page's, and below what the kernel has."""
        found = self.call(MMAP, address, size, protection, flags, fd, 0)
        if found % PAGE or not 0 < found <= _USER - size or (flags & _MAP_NOREPLACE and found != address):
            raise not_our_call(self.tid, f"says that memory was mapped at {found:#x}")
        return found

    def anonymous(self, address: int, size: int) -> int:
        flags = _MAP_PRIVATE | _MAP_ANONYMOUS | (_MAP_NOREPLACE if address else 0)
        return self.map(address, size, _PROT_READ | _PROT_WRITE, flags, -1)

    def reserve(self, size: int) -> int:
        """The same anywhere, without claiming that all of it will be used."""
        flags = _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_NORESERVE
        return self.map(0, size, _PROT_READ | _PROT_WRITE, flags, -1)

    def code(self, size: int, fd: int) -> int:
        """Map all of ``fd`` readable and executable, away from any code."""
        return self.map(_CODE_AT, size, _PROT_READ | _PROT_EXEC, _MAP_SHARED, fd)

    def call_list(self) -> CallList:
        """Room for one, in memory of the process's own: what a forked child could write, it could have it do."""
        page = self.map(_LIST_AT, PAGE, _PROT_READ | _PROT_WRITE, _MAP_PRIVATE | _MAP_ANONYMOUS, -1)
        loop = self.map(_LIST_AT + PAGE, PAGE, _PROT_READ | _PROT_EXEC, _MAP_PRIVATE | _MAP_ANONYMOUS, -1)
        self.memory.write(loop, LOOP)
        return CallList(loop, page)

    def again(self, source: int, size: int, address: int) -> None:
        """Map what lies at ``source``, of a shared mapping, also at ``address``, which must be free.

        mremap(2) with an old size of 0: no file descriptor has to stay open in the target, which may close any.
        """
        self.call(MREMAP, source, 0, size, _MREMAP_MAYMOVE | _MREMAP_FIXED, address)

    def data(self, size: int, fd: int, at: int = _DATA_AT) -> int:
        """``at``: a wish."""
        return self.map(at, size, _PROT_READ | _PROT_WRITE, _MAP_SHARED, fd)

    def record(self, size: int, fd: int) -> int:
        """As data, but each process has its own, after a fork too."""
        return self.map(_RECORD_AT, size, _PROT_READ | _PROT_WRITE, _MAP_PRIVATE, fd)

    def unmap(self, address: int, size: int) -> None:
        self.call(MUNMAP, address, size)

    def handlers(self, signals: list[int]) -> list[tuple[int, int, int]]:
        """(handler, flags, restorer) of each signal: struct kernel_sigaction without its mask."""
        page = self.anonymous(0, 4096)
        found = []
        try:
            for number in signals:
                self.call(RT_SIGACTION, number, 0, page, 8)
                found.append(_ACTION.unpack(self.memory.read(page, _ACTION.size).ljust(_ACTION.size, b"\0")))
        finally:
            self.unmap(page, 4096)
        return found

    def memory_file(self, name: str) -> int:
        """memfd_create(2) in the target; its file descriptor there. Executable where that must be asked for (6.3)."""
        page = self.anonymous(0, 4096)
        try:
            self.memory.write(page, name.encode() + b"\0")
            try:
                fd = self.call(MEMFD_CREATE, page, _MFD_CLOEXEC | _MFD_ALLOW_SEALING | _MFD_EXEC)
            except OSError:
                fd = self.call(MEMFD_CREATE, page, _MFD_CLOEXEC | _MFD_ALLOW_SEALING)
        finally:
            self.unmap(page, 4096)
        if fd >= _DESCRIPTORS:
            raise not_our_call(self.tid, f"says that a file was opened as {fd:#x}")
        return fd


def not_our_call(tid: int, what: str) -> TargetError:
    """For what a thread says that cannot be."""
    hint = "something interferes with it; nothing was changed by what it said"
    return TargetError("not-our-call", f"thread {tid} {what}", hint)
