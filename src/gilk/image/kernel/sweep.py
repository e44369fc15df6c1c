# SPDX-License-Identifier: LGPL-2.1-or-later
"""All instructions of a kernel as arrays: one linear decoding, begun anew at every symbol.

A kernel has millions of instructions. To make an object for each and look at it costs a minute; a decoder that only
tells where each begins and what opcode it has takes a second, and the rest is arithmetic on whole arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from iced_x86 import Decoder
from numpy.typing import NDArray

from gilk.image.kernel import opcodes
from gilk.image.kernel.kallsyms import Addresses
from gilk.image.kernel.snapshot import TextRegion
from gilk.values import dataclass

_LENGTH_BITS = 4
_LONGEST = 16  # in bytes; one more than an instruction may have
_FILL = b"\xcc"


@dataclass(frozen=True)
class Sweep:
    """The instructions, by address. ``codes`` are iced-x86's opcodes; ``targets`` are those of direct branches, 0 for
    others.
    """

    starts: Addresses
    lengths: NDArray[np.uint8]
    codes: NDArray[np.uint16]
    targets: Addresses

    @classmethod
    def of(cls, texts: Iterable[TextRegion], heads: Addresses) -> Sweep:
        """The sweep of ``texts``, which must be sorted; decoding begins at their starts and at each of ``heads``."""
        swept = [_one(text, heads) for text in texts if text.data]
        columns = [np.concatenate(column) for column in zip(*swept, strict=True)]
        return cls(*columns) if columns else cls(*(np.zeros(0, kind) for kind in ("u8", "u1", "u2", "u8")))

    @cached_property
    def ends(self) -> Addresses:
        return self.starts + self.lengths

    @cached_property
    def flows(self) -> NDArray[np.uint8]:
        return opcodes.flows()[self.codes]

    @cached_property
    def direct(self) -> NDArray[np.int64]:
        """The rows of the branches, jumps and calls with their target in the instruction."""
        return np.flatnonzero(self.targets)

    @cached_property
    def padding(self) -> NDArray[np.bool_]:
        return opcodes.padding()[self.codes]

    def row(self, addresses: Addresses) -> NDArray[np.int64]:
        """The row of the instruction that begins at each address; -1 if none does."""
        rows = np.searchsorted(self.starts, addresses)
        rows[rows == len(self.starts)] = 0
        found = self.starts[rows] == addresses if len(self.starts) else np.zeros(len(addresses), np.bool_)
        return np.where(found, rows, -1)


def distinct(addresses: Addresses) -> Addresses:
    """The addresses, sorted, each once. np.unique uses hashes, which takes ten times as long for a million
    addresses.
    """
    if not len(addresses):
        return addresses
    inorder = np.sort(addresses)
    return inorder[np.concatenate(([True], inorder[1:] != inorder[:-1]))]


def _one(text: TextRegion, heads: Addresses) -> tuple[Addresses, NDArray[np.uint8], NDArray[np.uint16], Addresses]:
    words, pieces, counts = _decode(text, heads)
    lengths = (words & ((1 << _LENGTH_BITS) - 1)).astype(np.uint8)
    codes = (words >> _LENGTH_BITS).astype(np.uint16)
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    firsts = np.cumsum(counts) - counts
    offsets = offsets[:-1] + np.repeat(pieces - offsets[firsts], counts)
    starts = np.uint64(text.address) + offsets.astype(np.uint64)
    return starts, lengths, codes, _targets(text, offsets, lengths, codes)


def _decode(text: TextRegion, heads: Addresses) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64]]:
    """The instructions, as opcode and length in one word; the offset at which each piece between two heads begins, and
    the number of instructions in each piece.
    """
    low, high = np.searchsorted(heads, np.array([text.address + 1, text.end], np.uint64))
    cuts = [0, *(heads[low:high] - np.uint64(text.address)).tolist(), len(text.data)]
    words: list[int] = []
    counts = []
    for i in range(len(cuts) - 1):
        start = cuts[i]
        before = len(words)
        decoder = Decoder(64, _without_fill(text.data[start : cuts[i + 1]]), ip=text.address + start)
        words += [one.code << _LENGTH_BITS | one.len for one in decoder]
        counts.append(len(words) - before)
    return np.array(words, np.uint32), np.array(cuts[:-1], np.int64), np.array(counts, np.int64)


def _without_fill(piece: bytes) -> bytes:
    """The piece without most of the filling behind code: megabytes of int3 between sections, zeros at a module's end.

    As many bytes of it are left as the last instruction may have.
    """
    return piece[: len(piece.rstrip(_FILL if piece.endswith(_FILL) else b"\0")) + _LONGEST]


def _targets(
    text: TextRegion, offsets: NDArray[np.int64], lengths: NDArray[np.uint8], codes: NDArray[np.uint16]
) -> Addresses:
    content = np.frombuffer(text.data, np.uint8)
    sizes = opcodes.near()[codes]
    targets = np.zeros(len(offsets), np.uint64)
    ends = offsets + lengths
    short, long = np.flatnonzero(sizes == 1), np.flatnonzero(sizes == 4)
    targets[short] = _added(text, ends[short], content[ends[short] - 1].view(np.int8).astype(np.int64))
    rows = content[(ends[long] - 4)[:, None] + np.arange(4)]
    targets[long] = _added(text, ends[long], np.ascontiguousarray(rows).view("<i4").reshape(-1).astype(np.int64))
    return targets


def _added(text: TextRegion, ends: NDArray[np.int64], distances: NDArray[np.int64]) -> Addresses:
    return np.uint64(text.address) + (ends + distances).view(np.uint64)
