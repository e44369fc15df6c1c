# SPDX-License-Identifier: LGPL-2.1-or-later
"""Hands out the memory in which patches lie: arenas near an image, and single pages for puns.

An *arena* is one mapping of the code object within reach of the images that it serves. A *pun page* is a page anywhere
in reach whose address fits a displacement of which some bytes are given; it maps a page of the code object, too.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from gilk.values import dataclass

PAGE = 4096
#: The largest distance of an arena, in bytes: a jump must reach from anywhere in an image to its arena and back.
REACH = (1 << 31) - (1 << 28)
TRAMPOLINE, FAR_TRAMPOLINE = 5, 15  # sizes in bytes of a jump, and of a jump by way of an address in memory
_LOWEST, _HIGHEST = 0x10000, 1 << 47


class OutOfSpace(Exception):
    """The arena is full."""


@dataclass(frozen=True, slots=True)
class Occupied:
    """Address ranges (start, end) that are in use or must be left alone, sorted and disjoint."""

    ranges: tuple[tuple[int, int], ...]

    def free(self, start: int, end: int) -> bool:
        i = bisect.bisect_right(self.ranges, (start, 1 << 64)) - 1
        if i >= 0 and self.ranges[i][1] > start:
            return False
        return i + 1 >= len(self.ranges) or self.ranges[i + 1][0] >= end


class Arena:
    """Hands out addresses from the bottom up. Memory that has held a patch is not handed out again.

    A forked child may still run a patch that its parent removed long ago, so memory that once held a patch keeps it
    until the session ends.
    """

    def __init__(self, base: int, size: int, offset: int, used: int = 0) -> None:
        self.base, self.size, self.offset = base, size, offset
        self._next = base + used

    def allocate(self, size: int) -> int:
        """The address of ``size`` free bytes. Raises OutOfSpace."""
        address = self._next
        if address + size > self.base + self.size:
            raise OutOfSpace
        self._next = (address + size + 15) & ~15
        return address

    def give_back(self, end: int) -> None:
        """Take back the bytes beyond ``end`` of the allocation that was made last."""
        self._next = (end + 15) & ~15

    def mark(self) -> int:
        """A mark for ``reset``, which is allowed as long as no memory handed out since has been used."""
        return self._next

    def reset(self, mark: int) -> None:
        self._next = mark

    @property
    def reach(self) -> tuple[int, int]:
        """The range of addresses (from, to) from anywhere in which a jump reaches all of the arena."""
        return self.base + self.size - (1 << 31) + PAGE, self.base + (1 << 31) - PAGE

    def holds(self, address: int) -> bool:
        return self.base <= address < self.base + self.size


class PunPages:
    """Finds room for a jump at an address whose high bytes are given."""

    def __init__(self, occupied: Occupied, first_offset: int, limit: int) -> None:
        self._occupied = occupied
        self._next_offset = first_offset
        self._limit = limit
        self.pages: dict[int, int] = {}
        self._sorted: list[int] = []
        self._used: dict[int, bytearray] = {}
        self._given: list[tuple[int, int]] = []  # (address, size in bytes) of all that was handed out

    def avoid(self, occupied: Occupied) -> None:
        """Take ``occupied`` as the mappings of the target, which may have made new ones."""
        self._occupied = occupied

    def lose(self, pages: Iterable[int], occupied: Occupied) -> None:
        """Give up ``pages``, which the target has mapped first; nothing that was handed out in them may be used."""
        self.avoid(occupied)
        for page in pages:
            del self.pages[page], self._used[page]
        self._sorted = sorted(self.pages)

    def mark(self) -> int:
        """A mark for ``reset``, which is allowed as long as no memory handed out since has been used."""
        return len(self._given)

    def reset(self, mark: int) -> None:
        for at, size in self._given[mark:]:
            page = at & -PAGE
            if page in self._used:
                self._used[page][at - page : at - page + size] = bytes(size)
        del self._given[mark:]

    def allocate(self, low: int, high: int, size: int = TRAMPOLINE) -> int | None:
        """An address in [low, high) with ``size`` free bytes, on one page; None when there is none."""
        low, high = max(low, 0), min(high, _HIGHEST)
        found = self._on_known_page(low, high, size) or self._on_new_page(low, high, size)
        if found is not None:
            self._given.append((found, size))
        return found

    def may_have(self, at: int) -> bool:
        """Whether there is a page for a jump at address ``at``, or one may be opened."""
        page = at & -PAGE
        return page in self.pages or (len(self.pages) < self._limit and self._may_open(page))

    def _may_open(self, page: int) -> bool:
        return _LOWEST <= page < _HIGHEST and self._occupied.free(page, page + PAGE)

    def _on_known_page(self, low: int, high: int, size: int) -> int | None:
        first = bisect.bisect_left(self._sorted, low & -PAGE)
        for page in self._sorted[first : first + 64]:
            if page >= high:
                break
            found = self._fit(page, low, high, size)
            if found is not None:
                return found
        return None

    def _on_new_page(self, low: int, high: int, size: int) -> int | None:
        if len(self.pages) >= self._limit:
            return None
        for page in range(low & -PAGE, high, PAGE):
            if page in self.pages or not self._may_open(page):
                continue
            self._open(page)
            found = self._fit(page, low, high, size)
            if found is not None:
                return found
        return None

    def _open(self, page: int) -> None:
        self.pages[page] = self._next_offset
        self._next_offset += PAGE
        bisect.insort(self._sorted, page)
        self._used[page] = bytearray(PAGE)

    def _fit(self, page: int, low: int, high: int, size: int) -> int | None:
        used = self._used[page]
        start, stop = max(low - page, 0), min(high - page, PAGE - size + 1)
        at = used.find(bytes(size), start, stop + size - 1)
        if at < 0 or start >= stop:
            return None
        used[at : at + size] = b"\1" * size
        return page + at
