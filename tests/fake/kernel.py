# SPDX-License-Identifier: LGPL-2.1-or-later
"""The system calls that a program of the fake makes for its keeper (targets/system_calls.py), which map memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from gilk.targets.call_list import Call, CallList
from gilk.targets.memory import Memory
from gilk.targets.system_calls import (
    CLOSE,
    MADV_WIPEONFORK,
    MADVISE,
    MEMFD_CREATE,
    MMAP,
    MPROTECT,
    MREMAP,
    MUNMAP,
    RT_SIGACTION,
    SystemCalls,
)
from tests.fake.space import PAGE, Backing, Region, Space

_SHARED, _NOREPLACE, _FIXED = 1, 0x100000, 2
_FIRST_DESCRIPTOR = 3


class Files:
    """The memory objects that the program has open. ``real`` has this process's descriptors, by the program's
    numbers."""

    def __init__(self) -> None:
        self.real: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._backings: dict[int, Backing] = {}

    def open(self, name: str) -> int:
        number = next(n for n in range(_FIRST_DESCRIPTOR, 1 << 20) if n not in self.real)
        self.real[number], self._names[number] = os.memfd_create(name), name
        return number

    def adopt(self, real: int, name: str) -> int:
        """Give the program another descriptor, of a file that this process has open as ``real``."""
        number = next(n for n in range(_FIRST_DESCRIPTOR, 1 << 20) if n not in self.real)
        self.real[number], self._names[number] = os.dup(real), name
        return number

    def close(self, number: int) -> None:
        if number not in self.real:
            raise _error(errno.EBADF)
        os.close(self.real.pop(number))
        self._backings.pop(number, None)

    def backing(self, number: int) -> Backing:
        if number not in self.real:
            raise _error(errno.EBADF)
        if number not in self._backings:
            self._backings[number] = Backing.of_memory(self.real[number], self._names[number])
        return self._backings[number]


class FakeCalls(SystemCalls):
    """System calls on the fake. ``step`` is told of each call before it is made."""

    def __init__(self, space: Space, files: Files, memory: Memory, tid: int, step: Callable[[str], None]) -> None:
        super().__init__(memory)
        self._space = space
        self._files = files
        self._tid = tid
        self._step = step
        self._table = {
            MMAP: self._mmap, MUNMAP: self._munmap, MREMAP: self._mremap, MPROTECT: self._mprotect,
            MADVISE: self._madvise, MEMFD_CREATE: self._memfd_create, CLOSE: self._close, RT_SIGACTION: self._sigaction,
        }  # fmt: skip

    @property
    def tid(self) -> int:
        return self._tid

    def call(self, number: int, *arguments: int) -> int:
        made = self._table[number]
        self._step(made.__name__.strip("_"))
        if self._space.gone:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        return made(*arguments)

    def many(self, place: CallList, calls: Sequence[Call]) -> list[int]:
        results = []
        for one in calls:
            try:
                results.append(self.call(*one))
            except ProcessLookupError:
                raise
            except OSError as error:
                return [*results, -(error.errno or errno.EIO)]
        return results

    def leave_our_memory(self) -> None:
        self._step("leave_our_memory")

    def leave_code_of_files(self) -> None:
        self._step("leave_code_of_files")

    # The system calls themselves.

    def _mmap(self, address: int, size: int, protection: int, flags: int, fd: int, offset: int) -> int:
        end = address + size
        if flags & _NOREPLACE and not self._space.free(address, end):
            raise _error(errno.EEXIST)
        if not address or not self._space.free(address, end):
            address = self._space.room(size)
        private = not flags & _SHARED
        backing = Backing.anonymous(size) if fd < 0 else self._files.backing(fd)
        if fd >= 0 and private:
            backing = backing.copy()
        self._space.add(Region(address, address + size, _rights(protection) + "sp"[private], backing, offset))
        return address

    def _munmap(self, address: int, size: int) -> int:
        self._space.remove(address, address + (size + PAGE - 1 & -PAGE))
        return 0

    def _mremap(self, old: int, old_size: int, size: int, flags: int, address: int = 0) -> int:
        assert flags & _FIXED
        found = self._space.at(old)
        if found is None:
            raise _error(errno.EFAULT)
        if old_size:
            parts = self._space.remove(old, old + old_size)
        else:
            assert found.rights.endswith("s")
            parts = [found.part(old, old + size)]
        for part in parts:
            self._space.add(replace(part, start=part.start - old + address, end=part.end - old + address))
        return address

    def _mprotect(self, address: int, size: int, protection: int) -> int:
        found = self._space.at(address)
        self._space.change(address, address + size, rights=_rights(protection) + (found.rights[3] if found else "p"))
        return 0

    def _madvise(self, address: int, size: int, advice: int) -> int:
        if advice == MADV_WIPEONFORK:
            self._space.change(address, address + size, wiped=True)
        return 0

    def _memfd_create(self, name: int, flags: int) -> int:
        return self._files.open(self._space.some(name, PAGE).split(b"\0")[0].decode())

    def _close(self, fd: int) -> int:
        self._files.close(fd)
        return 0

    def _sigaction(self, number: int, new: int, old: int, size: int) -> int:
        """Write a zeroed old action: no signal is handled."""
        self._space.write(old, bytes(24))
        return 0


def _rights(protection: int) -> str:
    return "".join(letter if protection >> bit & 1 else "-" for bit, letter in enumerate("rwx"))


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
