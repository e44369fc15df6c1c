# SPDX-License-Identifier: LGPL-2.1-or-later
"""The memory of a D program that is elsewhere: a copy here, which is brought up to date before it is read.

The owner of the memory lets the consumer change only the consumer's own words (native/abi/gilk_d.h, Ownership). So
`settle` sends the owner what the readers have changed in the copy.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Sequence
from typing import Protocol

from gilk.targets.threads import Gone, thread_is_gone
from gilk.trace.d.layout import DROPS, GRANULE, Buffer, MemoryLayout, State, TableHead
from gilk.trace.d.memory import ProgramMemory

_CONTROL = 40  # the number of bytes at the start of struct gd_control, before the layout
_STATE, _BANK = 12, 16
_LINE = 64


class MemoryOwner(Protocol):
    """The owner of the memory. Offsets and sizes are in bytes."""

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]: ...
    def read_long(self, offset: int, size: int) -> bytes: ...
    def lines(self, offset: int, size: int) -> Iterator[tuple[int, bytes]]:
        """The cache lines of the range that are not all zero, each with its offset."""

    def put(self, words: Sequence[tuple[int, int, int]]) -> None:
        """Change words, each given as (offset, value, width)."""

    def settle(self) -> int:
        """Have the records of committed speculations follow the others; returns their number."""

    def reap(self) -> int:
        """Free the variables of threads that have gone; returns the number of variables."""


class CopiedMemory(ProgramMemory):
    """The copy of a memory that ``owner`` has initialised. ``speculates``: clauses of the program use speculations."""

    def __init__(self, layout: MemoryLayout, owner: MemoryOwner, speculates: bool = False) -> None:
        self._owner = owner
        self._speculates = speculates
        self._copy = mmap.mmap(-1, layout.size)
        super().__init__(layout, self._copy)
        self._limits = [layout.buffer_size] * layout.buffers
        self._generation = [0] * layout.aggregations
        self._bank = 0
        self._heaps: dict[int, bytes] = {}  # by the offset of a heap: its content as it was read
        self._heads = (
            (0, _CONTROL),
            (layout.drops, layout.buffers * DROPS * 8),
            *(
                (layout.buffer_first + buffer * layout.buffer_stride, ctypes.sizeof(Buffer))
                for buffer in range(layout.buffers)
            ),
        )

    def look(self) -> None:
        if self._speculates:
            self._owner.settle()
        self._take(self._heads)

    @property
    def state(self) -> State:
        return super().state

    @state.setter
    def state(self, state: State) -> None:
        self._owner.put([(_STATE, int(state), 4)])
        self.control.state = state

    def fetch(self, buffer: int, start: int, end: int) -> None:
        """Copy the records of a buffer between two positions. Marks are copied first, so that a record that is whole by
        its mark is whole in the copy.
        """
        at = self.layout.buffer_first + buffer * self.layout.buffer_stride
        for low, high in _pieces(start, end, self.layout.buffer_size):
            marks = at + self.layout.buffer_marks + low // GRANULE * 8
            self._put_here(marks, self._owner.read_long(marks, (high - low) // GRANULE * 8))
            data = at + self.layout.buffer_data + low
            self._put_here(data, self._owner.read_long(data, high - low))

    def fetch_table(self, bank: int, shard: int) -> None:
        layout, at = self.layout, self._table_at(bank, shard)
        slots, heap = at + layout.table_slot, at + layout.table_heap
        self._take([(at, ctypes.sizeof(TableHead))])
        if self.table(bank, shard).used == GRANULE:
            return  # the table has never had an entry
        lines = list(self._owner.lines(slots, -(-layout.table_slots * 8 // _LINE) * _LINE))
        self._take([(at, ctypes.sizeof(TableHead)), (at + layout.table_direct, layout.aggregations * 4)])
        for place, line in lines:  # an entry that a slot names lies in the used part of the heap, read below
            self._put_here(place, line)
        used = min(self.table(bank, shard).used + 7 & -8, layout.heap_size)
        self._heaps[heap] = self._owner.read_long(heap, used)
        self._put_here(heap, self._heaps[heap])

    def settle(self) -> None:
        self._owner.put([*self._changed_limits(), *self._changed_numbers()])

    def settle_tables(self) -> None:
        words: list[tuple[int, int, int]] = []
        for heap, before in self._heaps.items():
            now = memoryview(self._bytes[heap : heap + len(before)].tobytes()).cast("Q")
            was = memoryview(before).cast("Q")
            words += [
                (heap + 8 * n, new, 8) for n, (old, new) in enumerate(zip(was, now, strict=True)) if old != new
            ]  # fmt: skip
        self._owner.put(words)

    def forget(self, gone: Gone = thread_is_gone) -> int:
        """Free the thread-local variables of threads that have gone, which the owner knows best; returns
        their number.
        """
        return self._owner.reap() if self.layout.dynamic_slots else 0

    def reap(self, gone: Gone = thread_is_gone) -> int:
        """Do nothing: threads of the owner have no scratch memory. Returns 0."""
        return 0

    def put_globals(self) -> None:
        """Send the owner the content of the global variables."""
        data, at = self.globals().tobytes(), self.layout.globals
        self._owner.put([(at + n, int.from_bytes(data[n : n + 8], "little"), 8) for n in range(0, len(data) & -8, 8)])

    def _take(self, ranges: Sequence[tuple[int, int]]) -> None:
        for (at, _), data in zip(ranges, self._owner.read(ranges), strict=True):
            self._put_here(at, data)

    def _put_here(self, at: int, data: bytes) -> None:
        self._bytes[at : at + len(data)] = data

    def _changed_limits(self) -> Iterator[tuple[int, int, int]]:
        for number, head in enumerate(self.heads):
            if head.limit != self._limits[number]:
                self._limits[number] = head.limit
                at = self.layout.buffer_first + number * self.layout.buffer_stride
                yield at + Buffer.limit.offset, head.limit, 8

    def _changed_numbers(self) -> Iterator[tuple[int, int, int]]:
        for number, generation in enumerate(self.generations.tolist()):
            if generation != self._generation[number]:
                self._generation[number] = generation
                yield self.layout.generations + 4 * number, generation, 4
        if self.control.bank != self._bank:
            self._bank = self.control.bank
            yield _BANK, self._bank, 4


def _pieces(start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a ring of ``size`` bytes between two positions, as (from, to)."""
    while start < end:
        low = start % size
        high = min(low + end - start, size)
        yield low, high
        start += high - low
