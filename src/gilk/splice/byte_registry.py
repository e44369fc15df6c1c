# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds padding behind functions and blocks, and keeps account of the bytes of an image that splices change or rely on.

Compilers align functions and loop heads with nops or int3. The bytes between an instruction that never falls through
and the next known code may be overwritten if all of them are such padding.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from iced_x86 import Decoder, Mnemonic
from numpy.typing import NDArray

from gilk.image.model import Image

Addresses = NDArray[np.int64]

_LONGEST = 256
_CLAIM = 0x80
_UNMARKED, _CLAIMED = bytes(64), bytes((_CLAIM,)) * 64


def padding_end(image: Image, start: int, limit: int) -> int:
    """The end of the padding that begins at ``start``, at most ``limit``; ``start`` if there is no padding.

    All bytes up to ``limit`` must be padding: otherwise they may be code that begins with a nop, and ``start`` is
    returned.
    """
    if limit <= start or limit - start > _LONGEST:
        return start
    data = image.read(start, limit - start)
    if len(data) < limit - start:
        return start
    if not data.strip(b"\xcc\x90"):
        return limit
    for instruction in Decoder(64, data, ip=start):
        if instruction.mnemonic not in (Mnemonic.NOP, Mnemonic.INT3):
            return start
    return limit


def whole_pads(image: Image, start: int, end: int, size: int) -> list[int]:
    """The addresses in the padding [start, end) at which a site of ``size`` bytes replaces the head of one instruction,
    or whole instructions: each nop of at least ``size`` bytes, and in a run of one-byte ones the last ``size`` bytes so
    far.
    """
    found: list[int] = []
    run: list[int] = []
    for instruction in Decoder(64, image.read(start, end - start), ip=start):
        if instruction.len == 1:
            run.append(instruction.ip)
            if len(run) >= size:
                found.append(run[-size])
            continue
        run.clear()
        if instruction.len >= size:
            found.append(instruction.ip)
    return found


class _Region:
    """An executable segment: ``content``, the bytes as they will be, and ``marks``, a byte for each.

    A mark is 0x80 for a byte that a site uses, plus the number of puns that share the byte.
    """

    __slots__ = ("content", "end", "marks", "original", "start")

    def __init__(self, start: int, data: bytes) -> None:
        self.start, self.end = start, start + len(data)
        self.original = data
        self.content = bytearray(data)
        self.marks = bytearray(len(data))


class Registry:
    """The state of the bytes of an image, across all plans of a session.

    A byte is *claimed* if a site uses it, and *pinned* if it is a part of a pun's displacement and must keep its value.
    Only bytes of executable segments that are in the file can be used.
    """

    def __init__(self, image: Image) -> None:
        self._regions = [_Region(s.address, s.data) for s in image.segments if s.executable and s.data]

    def _region(self, start: int, end: int) -> _Region | None:
        for region in self._regions:
            if region.start <= start and end <= region.end:
                return region
        return None

    def free(self, start: int, end: int) -> bool:
        """Whether a site may be written to [start, end): no byte there is claimed or pinned."""
        region = self._region(start, end)
        if region is None:
            return False
        at = start - region.start
        return region.marks.startswith(_UNMARKED[: end - start], at)

    def unclaimed(self, start: int, end: int) -> bool:
        """Whether [start, end) is free of sites; puns may share it."""
        region = self._region(start, end)
        return region is not None and max(region.marks[start - region.start : end - region.start], default=0) < _CLAIM

    def claim(self, start: int, end: int) -> None:
        """Claim [start, end) for a site; the range must be free."""
        region = self._region(start, end)
        assert region is not None
        at = start - region.start
        region.marks[at : at + end - start] = _CLAIMED[: end - start]

    def pin(self, start: int, end: int) -> None:
        self._count(start, end, 1)

    def unpin(self, start: int, end: int) -> None:
        self._count(start, end, -1)

    def _count(self, start: int, end: int, change: int) -> None:
        region = self._region(start, end)
        assert region is not None
        for at in range(start - region.start, end - region.start):
            region.marks[at] += change

    def release(self, start: int, end: int) -> None:
        """Remove the claim on [start, end); its content is that of the image again."""
        region = self._region(start, end)
        assert region is not None
        low, high = start - region.start, end - region.start
        region.marks[low:high] = bytes(mark & ~_CLAIM for mark in region.marks[low:high])
        region.content[low:high] = region.original[low:high]

    # The same for many bytes at once; each is named by its own address.

    def taken(self, at: Addresses) -> NDArray[np.bool_]:
        """Whether the byte at each address is claimed or pinned, or cannot be used at all."""
        found = np.ones(len(at), np.bool_)
        for region, rows in self._by_region(at):
            found[rows] = np.frombuffer(region.marks, np.uint8)[at[rows] - region.start] != 0
        return found

    def claim_bytes(self, at: Addresses, new: NDArray[np.uint8]) -> None:
        """Claim the free bytes at the addresses ``at``, and set their content to ``new``."""
        for region, rows in self._by_region(at):
            np.frombuffer(region.marks, np.uint8)[at[rows] - region.start] = _CLAIM
            np.frombuffer(region.content, np.uint8)[at[rows] - region.start] = new[rows]

    def release_bytes(self, at: Addresses) -> None:
        """Remove the claims on the bytes at the addresses ``at``; their content is that of the image again."""
        for region, rows in self._by_region(at):
            where = at[rows] - region.start
            np.frombuffer(region.marks, np.uint8)[where] &= ~_CLAIM & 0xFF
            np.frombuffer(region.content, np.uint8)[where] = np.frombuffer(region.original, np.uint8)[where]

    def _by_region(self, at: Addresses) -> Iterator[tuple[_Region, NDArray[np.intp]]]:
        for region in self._regions:
            rows = np.flatnonzero((at >= region.start) & (at < region.end))
            if len(rows):
                yield region, rows

    def write(self, address: int, data: bytes) -> bytes:
        """Set the content at ``address`` to what a site will put there; returns the bytes that the image has there."""
        region = self._region(address, address + len(data))
        assert region is not None
        at = address - region.start
        region.content[at : at + len(data)] = data
        return region.original[at : at + len(data)]

    def original(self, address: int, size: int) -> bytes:
        """The bytes as they are in the image; b'' if some of them are not in an executable segment."""
        region = self._region(address, address + size)
        return region.original[address - region.start : address - region.start + size] if region else b""

    def read(self, address: int, size: int) -> bytes:
        """The bytes as they will be with all sites written; b'' if some of them are not in an executable segment."""
        region = self._region(address, address + size)
        if region is None:
            return b""
        at = address - region.start
        return bytes(region.content[at : at + size])
