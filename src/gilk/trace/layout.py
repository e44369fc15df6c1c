# SPDX-License-Identifier: LGPL-2.1-or-later
"""The layout of the memory that client and target share.

native/abi/gilk_abi.h has the layout, and its header comment is the protocol; here are its structures as numpy dtypes,
and a test compares the two. `Geometry` has the sizes of the parts, `Shared` gives them names in a buffer.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gilk.errors import StoreError
from gilk.values import dataclass

MAGIC = 0x314B4C49474B
ABI_VERSION = 1
PAGE = 4096
CLASSES = 4
MAX_BLOCKS = 4096
RECORD_SIZES = (16, 32, 64, 256)

REGISTERS = (
    *("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"),
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip", "rflags"),
)
TEXT_BYTES = 232

_HEAD = [("tsc", "<u8"), ("iid", "<u4"), ("sp", "<u4")]

STAMP = np.dtype(_HEAD)
INTEGER = np.dtype([*_HEAD, ("value", "<u8"), ("extra", "<u8")])
ARGS = np.dtype([*_HEAD, ("arg", "<u8", (6,))])
REGS = np.dtype(
    {  # reg and text are a union
        "names": ["tsc", "iid", "sp", "length", "reserved", "reg", "text"],
        "formats": ["<u8", "<u4", "<u4", "<u4", "<u4", ("<u8", (18,)), ("u1", (TEXT_BYTES,))],
        "offsets": [0, 8, 12, 16, 20, 24, 24],
        "itemsize": 256,
    }
)
RECORDS = (STAMP, INTEGER, ARGS, REGS)

RING = np.dtype([("wpos", "<u8"), ("limit", "<u8"), ("drops", "<u8"), ("reserved", "<u8")])
ADVISING = np.dtype(
    [
        *(("shown", "<u8"), ("next", "<u8"), ("newest", "<u8"), ("running", "<u8")),
        *(("left", "<u8"), ("high", "<u8"), ("skipped", "<u8"), ("dropped", "<u8")),
    ]
)
BLOCK = np.dtype(
    [
        *(("owner", "<u8"), ("state", "<u4"), ("index", "<u4"), ("pid", "<u4"), ("tid", "<u4")),
        *(("birth", "<u8"), ("busy", "<u8"), ("nested", "<u8"), ("inside", "<u8")),
        ("side_top", "<u8"),
        ("ring", RING, (CLASSES,)),
        ("side_rsp", "<u8"),
        ("advising", ADVISING),
        ("holder", "<u8"),
    ]
)
RING_CLASS = np.dtype([("offset", "<u4"), ("size", "<u4")])
CONTROL = np.dtype(
    [
        *(("magic", "<u8"), ("version", "<u4"), ("blocks", "<u4"), ("first", "<u8"), ("stride", "<u8")),
        *(("counters", "<u4"), ("exhausted", "<u4"), ("ring", RING_CLASS, (CLASSES,))),
        *(("lost", "<u8"), ("next", "<u8"), ("noted", "<u8"), ("generation", "<u8"), ("claiming", "<u8")),
        *(("self", "<u4"), ("alone", "<u4")),
    ]
)

GATE = np.dtype(
    [
        *(("state", "<u4"), ("left", "<u4"), ("rounds", "<u4"), ("pid", "<u4"), ("tid", "<u4")),
        *(("reserved", "<u4"), ("tsc", "<u8"), ("frame", "<u8"), ("unused", "<u8")),
    ]
)
GATES_AT, GATES = 1024, 8
CLOSED, ARMED, REACHED = 0, 1, 2
#: Offsets of the parts of several clients in pages of control and of blocks (native/abi/gilk_abi.h).
PARTS_AT, PARTS = 2048, 128
IID_BITS = 24

Array = NDArray[Any]


def _pages(size: int) -> int:
    return (size + PAGE - 1) & -PAGE


@dataclass(frozen=True, slots=True)
class RingClass:
    """The place in a block of its ring of one record class, and the ring's size; both in bytes, 0 if the ring is not in
    use.
    """

    offset: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Geometry:
    """The sizes that fix a memory object; every number but `blocks` and `counters` is in bytes."""

    blocks: int
    first: int
    stride: int
    counters: int
    rings: tuple[RingClass, ...]

    @classmethod
    def plan(cls, counters: int, classes: Set[int], threads: int = 1024, ring_bytes: int = 1 << 20) -> Geometry:
        """The geometry for `threads` blocks, each with `counters` counters and a ring for each class of `classes`.

        `ring_bytes` is rounded up to a power of two, and to a page. Nothing is allocated: the object is sparse, and a
        block costs memory only where its thread has written.
        """
        if not 0 < threads <= MAX_BLOCKS or counters < 0 or not classes <= set(range(CLASSES)):
            raise ValueError(f"no such geometry: {threads} threads, {counters} counters, classes {sorted(classes)}")
        ring = max(PAGE, 1 << (ring_bytes - 1).bit_length())
        at = PAGE + _pages(counters * 8)
        rings = []
        for number in range(CLASSES):
            used = number in classes
            rings.append(RingClass(at, ring) if used else RingClass())
            at += ring if used else 0
        if at >= 1 << 32:
            raise ValueError(f"a block of {at} bytes: ring offsets are 32 bits wide")
        return cls(threads, PAGE, at, counters, tuple(rings))

    @property
    def size(self) -> int:
        """The size of the whole object, in bytes."""
        return self.first + self.blocks * self.stride

    def block_offset(self, index: int) -> int:
        """The offset of a block from the start of the object, in bytes."""
        return self.first + index * self.stride

    def initialise(self, view: memoryview) -> None:
        """Make zeroed memory ready for use: the control page, and every ring's `limit`. The magic number is written
        last.
        """
        shared = Shared(self, view)
        for number, ring in enumerate(self.rings):
            shared.control["ring"][number] = (ring.offset, ring.size)
            if ring.size:
                shared.heads["ring"]["limit"][:, number] = ring.size
        for name in ("blocks", "first", "stride", "counters"):
            shared.control[name] = getattr(self, name)
        shared.control["version"] = ABI_VERSION
        shared.control["magic"] = MAGIC

    @classmethod
    def read(cls, view: memoryview) -> Geometry:
        """The geometry that an initialised object has. Raises StoreError `stream-corrupt` if it is impossible."""
        if len(view) < PAGE:
            raise StoreError("stream-corrupt", f"shared memory of {len(view)} bytes has no control page")
        control = np.frombuffer(view, CONTROL, 1)[0]
        rings = tuple(RingClass(int(row["offset"]), int(row["size"])) for row in control["ring"])
        blocks, first, stride, counters = (int(control[name]) for name in ("blocks", "first", "stride", "counters"))
        geometry = cls(blocks, first, stride, counters, rings)
        if control["magic"] != MAGIC or control["version"] != ABI_VERSION or not geometry.is_sane(len(view)):
            raise StoreError("stream-corrupt", "shared memory without a valid control page")
        return geometry

    def is_sane(self, size: int) -> bool:
        """Whether its parts do not overlap, and its blocks lie within ``size`` bytes."""
        if not (0 < self.blocks <= MAX_BLOCKS and self.first >= PAGE and self.first % 8 == 0 and self.stride % 8 == 0):
            return False
        at = PAGE + self.counters * 8
        for number, ring in enumerate(self.rings):
            if ring.size:
                if (
                    ring.offset < at
                    or ring.offset % 8
                    or ring.size & (ring.size - 1)
                    or ring.size < RECORD_SIZES[number]
                ):
                    return False
                at = ring.offset + ring.size
        return at <= self.stride and self.size <= size


class Shared:
    """Names for the parts of a writable buffer laid out by `geometry`.

    To make one touches no page. `heads` is strided, so indexing it touches the head pages indexed and nothing else. A
    mapped buffer cannot be closed while one of these exists.
    """

    def __init__(self, geometry: Geometry, buffer: Any) -> None:
        self.geometry = geometry
        self._buffer = buffer
        self.control: Array = np.ndarray((), CONTROL, buffer)
        self.heads: Array = self._per_block((), BLOCK, 0)
        self.counters: Array = self._per_block((geometry.counters,), np.dtype("<u8"), PAGE)

    def _per_block(self, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int) -> Array:
        geometry = self.geometry
        strides = (geometry.stride, *(dtype.itemsize for _ in shape))
        return np.ndarray((geometry.blocks, *shape), dtype, self._buffer, geometry.first + offset, strides)

    def ring(self, block: int, number: int) -> Array:
        """The ring of record class `number` of a block, as rows of 64-bit words, one row a record."""
        ring = self.geometry.rings[number]
        words = RECORD_SIZES[number] // 8
        at = self.geometry.block_offset(block) + ring.offset
        return np.ndarray((ring.size // RECORD_SIZES[number], words), "<u8", self._buffer, at)
