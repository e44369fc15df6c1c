# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads an image's initial memory by address, with checks of bounds."""

from __future__ import annotations

import bisect
import struct
from dataclasses import field

import numpy
from numpy.typing import NDArray

from gilk.errors import ImageError
from gilk.image.model import LoadSegment
from gilk.values import dataclass

# The exceptions that a broken file may raise in a parser of an optional table. ImageError is among them: a table that
# lies outside the file makes that table unusable, not the program.
MALFORMED = (ImageError, struct.error, IndexError, ValueError, OverflowError)

Words = NDArray[numpy.uint64]


@dataclass(frozen=True)
class ImageMemory:
    """The segments of an image, sorted by address. ``size`` is the number of bytes that come from the file."""

    segments: tuple[LoadSegment, ...]
    size: int = field(init=False)
    _starts: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", sum(len(segment.data) for segment in self.segments))
        object.__setattr__(self, "_starts", tuple(segment.address for segment in self.segments))

    def segment_at(self, address: int) -> LoadSegment | None:
        i = bisect.bisect_right(self._starts, address) - 1
        if i >= 0 and address - self._starts[i] < self.segments[i].size:
            return self.segments[i]
        return None

    def locate(self, address: int) -> tuple[bytes, int]:
        """The content of the segment that contains ``address``, and the offset in it. Raises ImageError
        elf-malformed.
        """
        segment = self.segment_at(address)
        if segment is None or address - segment.address >= len(segment.data):
            raise ImageError("elf-malformed", f"no content at address {address:#x}")
        return segment.data, address - segment.address

    def read(self, address: int, size: int) -> bytes:
        """The ``size`` bytes at ``address``, from the file content of one segment. Raises ImageError elf-malformed."""
        data, offset = self.locate(address)
        if size < 0 or offset + size > len(data):
            raise ImageError("elf-malformed", f"no {size:#x} bytes at address {address:#x}")
        return data[offset : offset + size]

    def tail(self, address: int) -> bytes:
        """The bytes from ``address`` to the end of its segment's file content. Raises ImageError elf-malformed."""
        data, offset = self.locate(address)
        return data[offset:]

    def executable(self, address: int) -> bool:
        segment = self.segment_at(address)
        return segment is not None and segment.executable and address - segment.address < len(segment.data)

    def words(self, addresses: Words) -> tuple[Words, Words]:
        """The 8-byte words at those of ``addresses`` that have content, as two arrays: addresses and words."""
        found, values = [], []
        for segment in self.segments:
            if len(segment.data) < 8:
                continue
            start = numpy.uint64(segment.address)
            last = numpy.uint64(segment.address + len(segment.data) - 8)
            inside = addresses[(addresses >= start) & (addresses <= last)]
            content = numpy.frombuffer(segment.data, numpy.uint8)
            rows = content[(inside - start)[:, None] + numpy.arange(8, dtype=numpy.uint64)]
            found.append(inside)
            values.append(numpy.ascontiguousarray(rows).view("<u8").reshape(-1))
        empty = numpy.empty(0, numpy.uint64)
        return numpy.concatenate([empty, *found]), numpy.concatenate([empty, *values])
