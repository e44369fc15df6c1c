# SPDX-License-Identifier: LGPL-2.1-or-later
"""The layout of the memory that the clauses of a D program share with their consumer.

native/abi/gilk_d.h has the layout, and its header comment is the protocol; here are its structures for ctypes, and a
test compares the two. `Sizes` has the sizes of the parts, and `MemoryLayout.place` computes their places from these
alone, so a layout that was read from memory is valid if it is the one that its own sizes lead to.
"""

from __future__ import annotations

import ctypes
from dataclasses import asdict, fields
from enum import IntEnum

from gilk.errors import StoreError
from gilk.values import dataclass

MAGIC = 0x31444B4C4947
VERSION = 1
PAGE = 4096
GRANULE = 32
MAX_RECORD = 65535 * GRANULE
BANKS = 2
REACH = 128
EXITED = 1 << 31
EPID_FAULT = 0xFFFFFFFF
MIN_FLIP = (1 << 63) - 1
MAX_FLIP = 1 << 63
LARGEST = 1 << 40  # of any part, in bytes; no sum of them overflows


class State(IntEnum):
    INACTIVE = 0
    ACTIVE = 1
    DRAINING = 2
    BEGINNING = 3  # BEGIN alone may run


class BufferPolicy(IntEnum):
    SWITCH = 0
    FILL = 1
    RING = 2


class Mark(IntEnum):
    """The low two bits of a mark."""

    BUSY = 1
    DONE = 2
    VOID = 3


#: In the word of a dynamic variable's slot: in use; in nobody's use, and not free; first bit of its version.
SLOT_MEMBER, SLOT_LOST, SLOT_VERSION = 3, 4, 32
THREAD_TID = 0x3FFFFF  # in the identity of a thread

MARK_GRANULES, MARK_TID, MARK_LAP = 2, 18, 40

_U64, _U32 = ctypes.c_uint64, ctypes.c_uint32


class RecordHead(ctypes.Structure):
    """struct gd_record, with which the first granule of a record begins."""

    _fields_ = (
        *(("size", _U32), ("epid", _U32), ("tsc", _U64)),
        *(("tid", _U32), ("pid", _U32), ("cpu", _U32), ("probe", _U32)),
    )


class FaultData(ctypes.Structure):
    """struct gd_fault_data"""

    _fields_ = (("epid", _U32), ("action", _U32), ("offset", _U32), ("fault", _U32), ("address", _U64))


class Buffer(ctypes.Structure):
    """struct gd_buffer"""

    _fields_ = (
        *(("wpos", _U64), ("full", _U64), ("chill_since", _U64), ("chill_spent", _U64)),
        *(("reserved", _U64 * 4), ("limit", _U64), ("reserved2", _U64 * 7)),
    )


class TableHead(ctypes.Structure):
    """struct gd_table"""

    _fields_ = (("used", _U64), ("reserved", _U64 * 7))


class EntryHead(ctypes.Structure):
    """struct gd_entry"""

    _fields_ = (("number", _U32), ("key_size", _U32), ("cells", _U32), ("touched", _U32))


class VariableHead(ctypes.Structure):
    """struct gd_variable"""

    _fields_ = (("thread", _U64), ("variable", _U32), ("key_size", _U32))


class Speculation(ctypes.Structure):
    """struct gd_speculation"""

    _fields_ = (("word", _U64), ("reserved", _U64 * 7))


DROPS = 8


def pages(size: int) -> int:
    return (size + PAGE - 1) & -PAGE


def power_of_two(size: int) -> int:
    """The least power of two that is not below `size`."""
    return 1 << max(size - 1, 0).bit_length()


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that fix a layout. `..._size` and `..._stride` are in bytes, the others are numbers of things."""

    policy: int
    strsize: int
    globals_size: int
    buffers: int
    buffer_size: int
    aggregations: int
    shards: int
    table_slots: int
    heap_size: int
    dynamic_slots: int
    dynamic_stride: int
    speculations: int
    speculation_size: int
    scratches: int
    scratch_size: int
    unwind_size: int = 0

    def check(self) -> None:
        """Raises ValueError if no memory can have these sizes."""
        powers = [self.buffers, self.buffer_size, self.shards, self.table_slots]
        powers += [self.dynamic_slots or 1, self.scratches or 1]
        if any(value < 1 or value & (value - 1) for value in powers):
            raise ValueError(f"not a power of two, in {self}")
        if any(not 0 <= value <= LARGEST for value in asdict(self).values()):
            raise ValueError(f"out of bounds, in {self}")
        if self.buffer_size < PAGE or self.heap_size > 8 << 32 or self.policy not in list(BufferPolicy):
            raise ValueError(f"too small or too large, in {self}")
        eights = (self.heap_size, self.dynamic_stride, self.scratch_size, self.speculation_size % GRANULE)
        if self.speculation_size > GRANULE << 24 or any(value % 8 for value in eights) or eights[-1]:
            raise ValueError(f"not aligned, in {self}")


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """struct gd_layout, member by member. Offsets are in bytes from the start of the memory, or of the part."""

    size: int
    policy: int
    strsize: int
    drops: int
    globals: int
    globals_size: int
    buffers: int
    buffer_first: int
    buffer_stride: int
    buffer_size: int
    buffer_marks: int
    buffer_data: int
    aggregations: int
    generations: int
    shards: int
    table_first: int
    table_stride: int
    table_slots: int
    table_direct: int
    table_slot: int
    table_heap: int
    heap_size: int
    dynamic_slots: int
    dynamic_words: int
    dynamic_reach: int
    dynamic_first: int
    dynamic_stride: int
    speculations: int
    speculation_first: int
    speculation_stride: int
    speculation_size: int
    scratches: int
    scratch_owner: int
    scratch_first: int
    scratch_size: int
    unwind: int
    unwind_size: int

    @classmethod
    def place(cls, sizes: Sizes) -> MemoryLayout:
        """The layout with these sizes: parts begin at pages, in the order of the header comment. Raises ValueError."""
        sizes.check()
        at = _Cursor(PAGE)
        marks = PAGE + sizes.buffer_size // GRANULE * 8
        direct = GRANULE * 2
        slot = pages(direct + sizes.aggregations * 4)
        heap = pages(slot + sizes.table_slots * 8)
        speculation = pages(ctypes.sizeof(Speculation) + sizes.speculation_size)
        places = {
            "drops": at.take(sizes.buffers * DROPS * 8),
            "generations": at.take(sizes.aggregations * 4),
            "globals": at.take(sizes.globals_size),
            "buffer_marks": PAGE,
            "buffer_data": pages(marks),
            "buffer_stride": pages(marks) + sizes.buffer_size,
            "buffer_first": at.take(sizes.buffers * (pages(marks) + sizes.buffer_size)),
            "table_direct": direct,
            "table_slot": slot,
            "table_heap": heap,
            "table_stride": heap + pages(sizes.heap_size),
            "table_first": at.take(BANKS * sizes.shards * (heap + pages(sizes.heap_size))),
            "dynamic_words": at.take(sizes.dynamic_slots * 8),
            "dynamic_reach": at.take(sizes.dynamic_slots * 4),
            "dynamic_first": at.take(sizes.dynamic_slots * sizes.dynamic_stride),
            "speculation_stride": speculation,
            "speculation_first": at.take(sizes.speculations * speculation),
            "scratch_owner": at.take(sizes.scratches * 4),
            "scratch_first": at.take(sizes.scratches * sizes.scratch_size),
            "unwind": at.take(sizes.unwind_size),
        }
        return cls(size=at.at, **places, **asdict(sizes))

    @property
    def sizes(self) -> Sizes:
        return Sizes(**{field.name: getattr(self, field.name) for field in fields(Sizes)})

    @classmethod
    def read(cls, view: memoryview) -> MemoryLayout:
        """The layout in an initialised memory. Raises StoreError `stream-corrupt` if it is impossible."""
        if len(view) < PAGE:
            raise StoreError("stream-corrupt", f"shared memory of {len(view)} bytes has no control page")
        control = Control.from_buffer_copy(view)
        layout = cls(**{name: getattr(control.layout, name) for name in LAYOUT_FIELDS})
        try:
            placed = cls.place(layout.sizes)
        except ValueError:
            placed = None
        known = control.magic == MAGIC and control.version == VERSION
        if not known or placed != layout or layout.size > len(view):
            raise StoreError("stream-corrupt", "shared memory without a valid control page")
        return layout

    def c_source(self, name: str = "gd_layout_here") -> str:
        """A definition of the layout in C, for the file that includes the runtime: clauses never read the one in the
        memory.
        """
        members = ", ".join(f".{field} = {getattr(self, field)}UL" for field in LAYOUT_FIELDS)
        return f"static const struct gd_layout {name} = {{{members}}};\n"


class _Cursor:
    def __init__(self, at: int) -> None:
        self.at = at

    def take(self, size: int) -> int:
        """The place at which a part of ``size`` bytes begins; the next one begins behind it."""
        start, self.at = self.at, self.at + pages(size)
        return start


LAYOUT_FIELDS = tuple(field.name for field in fields(MemoryLayout))


class LayoutMembers(ctypes.Structure):
    """struct gd_layout"""

    _fields_ = tuple((name, _U64) for name in LAYOUT_FIELDS)


class Control(ctypes.Structure):
    """struct gd_control"""

    _fields_ = (
        *(("magic", _U64), ("version", _U32), ("state", _U32), ("bank", _U32), ("exit_status", _U32)),
        *(("reserved", _U64), ("layout", LayoutMembers)),
    )
