# SPDX-License-Identifier: LGPL-2.1-or-later
"""A target's own system calls, and what gilk does by them: map memory where it is wanted.

A subclass makes the calls (`call`); for a process, a borrowed thread makes them (remote.py).
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
ACTION_SIZE = 32  # bytes of struct kernel_sigaction
_USER = 0x7FFFFFFFF000  # end of what a process can map without asking for higher addresses
_DESCRIPTORS = 1 << 31
RT_SIGACTION = 13
MMAP, MPROTECT, MUNMAP, MREMAP, MADVISE, CLOSE, MEMFD_CREATE = 9, 10, 11, 25, 28, 3, 319
_MREMAP_MAYMOVE, _MREMAP_FIXED = 1, 2
_PROT_READ, _PROT_WRITE, _PROT_EXEC = 1, 2, 4
_MAP_SHARED, _MAP_PRIVATE, _MAP_ANONYMOUS, _MAP_NOREPLACE = 1, 2, 0x20, 0x100000
_MAP_NORESERVE = 0x4000
#: Preferred addresses. Where the kernel itself would put so large a mapping, just below the libraries, it would be in
#: the way of their puns.
_CODE_AT, _DATA_AT, _RECORD_AT, _LIST_AT = 0x2000_0000_0000, 0x2100_0000_0000, 0x2180_0000_0000, 0x21F0_0000_0000
MADV_DONTDUMP, MADV_WIPEONFORK = 16, 18
_MFD_CLOEXEC, _MFD_ALLOW_SEALING, _MFD_EXEC = 1, 2, 0x10


class SystemCalls(ABC):
    """The system calls of one target; ``memory`` is the target's."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    @property
    @abstractmethod
    def tid(self) -> int:
        """The tid of the thread that makes the calls."""

    @abstractmethod
    def call(self, number: int, *arguments: int) -> int:
        """Make a system call; returns its result. Raises OSError when the call failed, ProcessLookupError when the
        thread died, TargetError `not-our-call` if the thread has made another call than it was asked to."""

    @abstractmethod
    def many(self, place: CallList, calls: Sequence[Call]) -> list[int]:
        """Make calls one after the other until one fails; returns their results, of which -errno is then the last.

        Raises ProcessLookupError when the thread died.
        """

    @abstractmethod
    def leave_our_memory(self) -> None:
        """Stop using gilk's memory in the target, which is going to be unmapped."""

    @abstractmethod
    def leave_code_of_files(self) -> None:
        """Stop using code of mapped files, which is going to be moved."""

    def map(self, address: int, size: int, protection: int, flags: int, fd: int) -> int:
        """Map memory by mmap(2), from a file's beginning; returns the address, checked to be page-aligned and in user
        space."""
        found = self.call(MMAP, address, size, protection, flags, fd, 0)
        if found % PAGE or not 0 < found <= _USER - size or (flags & _MAP_NOREPLACE and found != address):
            raise not_our_call(self.tid, f"says that memory was mapped at {found:#x}")
        return found

    def anonymous(self, address: int, size: int) -> int:
        flags = _MAP_PRIVATE | _MAP_ANONYMOUS | (_MAP_NOREPLACE if address else 0)
        return self.map(address, size, _PROT_READ | _PROT_WRITE, flags, -1)

    def reserve(self, size: int) -> int:
        """Map anonymous memory anywhere, without reserving swap for all of it (MAP_NORESERVE); returns its address."""
        flags = _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_NORESERVE
        return self.map(0, size, _PROT_READ | _PROT_WRITE, flags, -1)

    def code(self, size: int, fd: int) -> int:
        """Map all of ``fd`` readable and executable, away from any code; returns the address."""
        return self.map(_CODE_AT, size, _PROT_READ | _PROT_EXEC, _MAP_SHARED, fd)

    def call_list(self) -> CallList:
        """Map a call list, in private memory: if a forked child could write to it, it could have its parent make any
        call."""
        page = self.map(_LIST_AT, PAGE, _PROT_READ | _PROT_WRITE, _MAP_PRIVATE | _MAP_ANONYMOUS, -1)
        loop = self.map(_LIST_AT + PAGE, PAGE, _PROT_READ | _PROT_EXEC, _MAP_PRIVATE | _MAP_ANONYMOUS, -1)
        self.memory.write(loop, LOOP)
        return CallList(loop, page)

    def again(self, source: int, size: int, address: int) -> None:
        """Map a part of a shared mapping, at ``source``, a second time at ``address``, which must be free.

        This is mremap(2) with an old size of 0: no file descriptor has to stay open in the target, which may close any.
        """
        self.call(MREMAP, source, 0, size, _MREMAP_MAYMOVE | _MREMAP_FIXED, address)

    def data(self, size: int, fd: int, at: int = _DATA_AT) -> int:
        """Map all of ``fd`` readable and writable, preferably ``at`` that address; returns the address."""
        return self.map(at, size, _PROT_READ | _PROT_WRITE, _MAP_SHARED, fd)

    def record(self, size: int, fd: int) -> int:
        """Map ``fd`` privately, so that a forked child has a copy of its own; returns the address."""
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

    def act(self, signal: int, actions: Sequence[bytes]) -> None:
        """Have the process do something else at a signal, by one action after the other."""
        page = self.anonymous(0, 4096)
        try:
            for action in actions:
                self.memory.write(page, action)
                self.call(RT_SIGACTION, signal, page, 0, 8)
        finally:
            self.unmap(page, 4096)

    def memory_file(self, name: str) -> int:
        """Make a memory object by memfd_create(2) in the target; returns its file descriptor there. It is executable,
        which must be asked for since Linux 6.3."""
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
    """The error about an impossible result that a thread reports."""
    hint = "something interferes with it; nothing was changed by what it said"
    return TargetError("not-our-call", f"thread {tid} {what}", hint)
