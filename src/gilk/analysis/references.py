# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds the places where code may name an address, from its bytes, before anything is decoded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gilk.image.model import Image, LoadSegment
from gilk.values import dataclass

_IMMEDIATES = (0, 1, 2, 4)  # the numbers of bytes that may follow a displacement in its instruction
_PIECE = 1 << 22


@dataclass(frozen=True, slots=True)
class AddressRange:
    """The link-time addresses [start, end)."""

    start: int
    end: int

    def has(self, address: int) -> bool:
        return self.start <= address < self.end

    def meets(self, start: int, end: int) -> bool:
        return start < self.end and end > self.start


def references(image: Image, ranges: tuple[AddressRange, ...]) -> list[int]:
    """The addresses of four bytes of code that would lead into one of the ranges if they were a displacement, or an
    address if the image is loaded where it was linked. Some of them are neither.
    """
    found: set[int] = set()
    for segment in image.segments:
        if segment.executable:
            for start, words in _pieces(segment):
                found.update(start + at for at in _leading(image, start, words, ranges))
    return sorted(found)


def _pieces(segment: LoadSegment) -> Iterator[tuple[int, np.ndarray]]:
    """The executable bytes as (address, words): the four bytes at each address from there on, as signed numbers."""
    data = np.frombuffer(segment.data, np.uint8).astype(np.int64)
    for at in range(0, max(len(data) - 3, 0), _PIECE):
        part = data[at : at + _PIECE + 3]
        words = part[:-3] | part[1:-2] << 8 | part[2:-1] << 16 | part[3:] << 24
        yield segment.address + at, words - ((words >> 31) << 32)


def _leading(image: Image, start: int, words: np.ndarray, ranges: tuple[AddressRange, ...]) -> Iterator[int]:
    behind = words + np.arange(start + 4, start + 4 + len(words), dtype=np.int64)
    for one in ranges:
        for more in _IMMEDIATES:
            yield from np.flatnonzero((behind + more >= one.start) & (behind + more < one.end)).tolist()
        if not image.position_independent:
            yield from np.flatnonzero((words >= one.start) & (words < one.end)).tolist()


def data_pointers(image: Image, one: AddressRange) -> list[int]:
    """The addresses of words of data that hold an address in the range; if the image is loaded where it was linked,
    also of numbers that look like one.
    """
    slots = [slot for slot, addend in image.relative.items() if one.has(addend)]
    if image.position_independent:
        return sorted(slots)
    for start, data in _data(image):
        skip = -start % 8
        words = np.frombuffer(data[skip : skip + (len(data) - skip) // 8 * 8], "<u8")
        hits = np.flatnonzero((words >= one.start) & (words < one.end))
        slots += [start + skip + 8 * at for at in hits.tolist()]
    return sorted(set(slots))


def _data(image: Image) -> Iterator[tuple[int, bytes]]:
    """All writable data, and constants, as (address, bytes); tables for the loader, which hold addresses of symbols,
    are left out.
    """
    constants = [one for one in image.sections if one.name.startswith((".rodata", ".data.rel.ro"))]
    yield from ((one.address, image.read(one.address, one.size)) for one in constants)
    for segment in image.segments:
        if segment.writable or not (segment.executable or image.sections):
            yield segment.address, segment.data
