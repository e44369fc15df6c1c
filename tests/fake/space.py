# SPDX-License-Identifier: LGPL-2.1-or-later
"""An address space: memory with and without files, mapped as by mmap(2), and read and written as by /proc/PID/mem.

All of it lies in memory of this process (`Backing`), so that the emulator executes the very bytes that a client of the
fake writes: a memory object that both have is one `Backing`, mapped in two places.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from gilk.targets.maps import Mapping

PAGE = 4096
_LOWEST, _HIGHEST = 0x10000, 0x7FFF_FFFF_F000
_inodes = count(1000)


@dataclass(eq=False)
class Backing:
    """Memory that can be mapped. ``content`` are its bytes; ``path`` is as /proc/PID/maps has it."""

    content: mmap.mmap
    path: str = ""
    inode: int = 0
    device: int = 0

    @classmethod
    def anonymous(cls, size: int, path: str = "") -> Backing:
        return cls(mmap.mmap(-1, size), path)

    @classmethod
    def of_memory(cls, fd: int, name: str) -> Backing:
        """The backing of a memory object, with the size that the object has now."""
        return cls(mmap.mmap(fd, os.fstat(fd).st_size), f"/memfd:{name} (deleted)", next(_inodes), 1)

    def copy(self) -> Backing:
        """The copy that a fork makes of private memory."""
        made = mmap.mmap(-1, len(self.content))
        made[:] = self.content[:]
        return replace(self, content=made)

    @property
    def address(self) -> int:
        """The address of the content in this process."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self.content))


@dataclass(frozen=True, eq=False)
class Region:
    """A mapping. ``rights`` are as in /proc/PID/maps; ``at`` is the place in ``backing``, and ``shift`` the
    difference between the file's offset and that."""

    start: int
    end: int
    rights: str
    backing: Backing
    at: int = 0
    shift: int = 0
    wiped: bool = False  # a forked child finds zeros there

    @property
    def mapping(self) -> Mapping:
        offset = self.at + self.shift if self.backing.inode else 0
        one = self.backing
        return Mapping(self.start, self.end, self.rights, offset, one.inode, one.path, one.device)

    def part(self, start: int, end: int) -> Region:
        return replace(self, start=start, end=end, at=self.at + start - self.start)


@dataclass
class Space:
    """All mappings of a program. ``on_change`` is called with the start and end of memory whose mapping has changed."""

    regions: list[Region] = field(default_factory=list)
    on_change: Callable[[int, int], None] = lambda start, end: None
    gone: bool = False  # the program has ended, and its memory with it

    def maps(self) -> tuple[Mapping, ...]:
        return tuple(region.mapping for region in self.regions)

    def at(self, address: int) -> Region | None:
        return next((region for region in self.regions if region.start <= address < region.end), None)

    # Functions that map memory.

    def add(self, region: Region) -> None:
        """Map a region, in place of what is mapped there."""
        self.remove(region.start, region.end)
        self.regions.append(region)
        self.regions.sort(key=lambda each: each.start)

    def remove(self, start: int, end: int) -> list[Region]:
        """Unmap memory. Returns the parts of regions that were mapped there."""
        kept: list[Region] = []
        removed: list[Region] = []
        for region in self.regions:
            low, high = max(start, region.start), min(end, region.end)
            if low >= high:
                kept.append(region)
                continue
            removed.append(region.part(low, high))
            kept += [part for part in (region.part(region.start, low), region.part(high, region.end)) if _size(part)]
        self.regions = kept
        self.regions.sort(key=lambda each: each.start)
        self.on_change(start, end)
        return removed

    def free(self, start: int, end: int) -> bool:
        return not any(region.start < end and start < region.end for region in self.regions)

    def room(self, size: int) -> int:
        """The highest free address for so many bytes, as mmap(2) chooses it."""
        top = _HIGHEST
        for region in reversed(self.regions):
            if region.end <= top - size - PAGE:
                break
            top = min(top, region.start)
        if top - size < _LOWEST:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return top - size - PAGE

    def change(self, start: int, end: int, **values: str | bool) -> None:
        """Change the rights of regions, or their fate at a fork. Raises OSError if not all of it is mapped."""
        parts = self.remove(start, end)
        for part in parts:
            self.add(replace(part, **values))
        if sum(map(_size, parts)) < end - start:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    def forked(self) -> Space:
        """The address space of a forked child: private memory is copied."""
        copies = {id(each.backing): each.backing.copy() for each in self.regions if each.rights.endswith("p")}
        made = [replace(each, backing=copies.get(id(each.backing), each.backing)) for each in self.regions]
        for each in made:
            if each.wiped:
                each.backing.content[each.at : each.at + _size(each)] = bytes(_size(each))
        return Space(made)

    # The methods of a Memory (gilk/targets/memory.py).

    def read(self, address: int, size: int) -> bytes:
        if self.gone:
            return b""
        found = self.some(address, size)
        if len(found) < size:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return found

    def some(self, address: int, size: int) -> bytes:
        return b"".join(bytes(part) for part in self._parts(address, size))

    def write(self, address: int, data: bytes) -> None:
        if self.gone:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        parts = list(self._parts(address, len(data)))
        if sum(map(len, parts)) < len(data):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        for part in parts:
            part[:], data = data[: len(part)], data[len(part) :]

    def _parts(self, address: int, size: int) -> Iterator[memoryview]:
        """The parts of the memory, up to the first page that is not mapped."""
        while size and not self.gone and (region := self.at(address)) is not None:
            low = region.at + address - region.start
            part = memoryview(region.backing.content)[low : low + min(size, region.end - address)]
            yield part
            address, size = address + len(part), size - len(part)


def _size(region: Region) -> int:
    return region.end - region.start
