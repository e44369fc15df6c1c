# SPDX-License-Identifier: LGPL-2.1-or-later
"""The driver's rings, mapped into our own memory: no system call to look at them, and each record is copied once.

native/abi/ilk_abi.h, MAPPED, is the protocol. The driver may reuse a chunk while it is read here; whether it has is
checked afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from mmap import PAGESIZE, mmap

import numpy as np
from numpy.typing import NDArray

from gilk.targets.kernel.driver_abi import CLASSES, RECORD_BYTES, RingChunk, Rings
from gilk.values import dataclass

Words = NDArray[np.uint64]
_HEAD = 2  # words of a ring's head: chunks entered so far, records lost
_IID = 2  # index of a record's iid, a 32-bit word that is 0 until the record is committed
_TRIES = 16  # tries at a ring whose chunks are reused faster than they are read


@dataclass
class _Ring:
    """The ring of one class on one CPU. ``at`` is how far it has been read, in bytes since its first chunk began.
    ``place`` is where in the ring the current chunk lies; ``overwritten`` counts records that were lost to reuse."""

    cpu: int
    kind: int
    chunks: int
    start: int  # offset of its chunks in the map of its class
    numbers: slice  # its words in the map of heads: the number of the chunk at each place
    at: int = 0
    place: int = 0
    overwritten: int = 0

    @property
    def index(self) -> int:
        return self.cpu * CLASSES + self.kind


class MappedRings:
    """All rings of a client. No view of the maps is kept between two calls, so that they can be closed."""

    def __init__(self, chunk: int, rings: list[_Ring], tails: mmap, heads: mmap, records: dict[int, mmap]) -> None:
        self._chunk = chunk
        self._rings = rings
        self._tails = tails
        self._heads = heads
        self._records = records

    def take(self) -> list[RingChunk]:
        """The records committed since the last call, ring by ring."""
        tails, heads = np.frombuffer(self._tails, np.uint64), np.frombuffer(self._heads, np.uint64)
        found = []
        for ring in self._rings:
            while chunk := self._next(ring, tails, heads):
                found.append(chunk)
        return found

    def _next(self, ring: _Ring, tails: Words, heads: Words) -> RingChunk | None:
        """The unread part of one chunk of a ring; None when all committed records are read."""
        numbers = heads[ring.numbers]
        for _ in range(_TRIES):
            number, entered = ring.at // self._chunk + 1, int(heads[ring.index * _HEAD])
            if number > entered:
                break
            if not self._find(ring, numbers, number):
                self._skip(ring, numbers, number)
                continue
            records = self._committed(ring)
            if int(numbers[ring.place]) != number:
                continue
            ring.at += len(records)
            tails[ring.index] = ring.at
            lost = int(heads[ring.index * _HEAD + 1]) + ring.overwritten
            return RingChunk(ring.cpu, ring.kind, lost, records) if records else None
        return None

    def _find(self, ring: _Ring, numbers: Words, number: int) -> bool:
        """Set ``place`` to where a chunk lies; returns False if the driver has reused it."""
        if int(numbers[ring.place]) != number:
            places = np.flatnonzero(numbers == number)
            if not places.size:
                return False
            ring.place = int(places[0])
        return True

    def _skip(self, ring: _Ring, numbers: Words, number: int) -> None:
        """Go on from a chunk that was reused to the oldest one that is still there, and count the records in
        between."""
        later = numbers[numbers > number]
        to = (int(later.min()) if later.size else number + 1) - 1
        ring.overwritten += (to * self._chunk - ring.at) // RECORD_BYTES[ring.kind]
        ring.at = to * self._chunk

    def _committed(self, ring: _Ring) -> bytes:
        """The records from the reading position up to the first that is not committed.

        They are copied after all of them were seen to be committed, which is safe because x86-64 does not reorder
        reads.
        """
        size, source = RECORD_BYTES[ring.kind], self._records[ring.kind]
        taken = ring.at % self._chunk
        start = ring.start + ring.place * self._chunk
        numbers = np.frombuffer(source[start + taken : start + self._chunk], np.uint32)[_IID :: size // 4]
        (open_ones,) = np.nonzero(numbers == 0)
        count = int(open_ones[0]) if open_ones.size else len(numbers)
        return source[start + taken : start + taken + count * size]


def map_rings(get: Callable[[int, int, bool], mmap | None], rings: Rings) -> MappedRings | None:
    """Map the rings that the driver has described; None when they cannot be mapped from here."""
    tails = get(rings.tails.offset, _pages(rings.tails.size), True)
    heads = get(rings.heads.offset, _pages(rings.heads.size), False)
    if tails is None or heads is None:
        return None
    records, found = {}, []
    for kind, (area, order) in enumerate(zip(rings.records, rings.orders, strict=True)):
        mapped = get(area.offset, area.size, False) if order else None
        if mapped is not None:
            records[kind] = mapped
            found += [_ring(rings, cpu, kind) for cpu in range(area.size >> order)]
    return MappedRings(rings.chunk, found, tails, heads, records)


def _ring(rings: Rings, cpu: int, kind: int) -> _Ring:
    size = 1 << rings.orders[kind]
    chunks = size // rings.chunk
    first = rings.numbers[kind] // 8 + cpu * chunks
    return _Ring(cpu, kind, chunks, cpu * size, slice(first, first + chunks))


def _pages(size: int) -> int:
    return (size + PAGESIZE - 1) & -PAGESIZE
