# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads one table of aggregations: its entries, checked, and arithmetic on their cells."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping

from gilk.errors import StoreError
from gilk.lang.data import Aggregation, Function, Kind
from gilk.lang.types import signed
from gilk.trace.d import layout
from gilk.trace.d.layout import GRANULE, MAX_FLIP, MIN_FLIP, PAGE
from gilk.trace.d.memory import ProgramMemory
from gilk.values import dataclass

#: An aggregation's number, and the bytes of a key.
Key = tuple[int, bytes]

#: Cells as in the table: unsigned, 64 bits each; for MIN and MAX only the one in use.
Cells = list[int]

_MASK = (1 << 64) - 1
_HEAD_WORDS = ctypes.sizeof(layout.EntryHead) // 8
_UNSIGNED = {Function.COUNT: (0,), Function.AVG: (0,), Function.STDDEV: (0, 2, 3)}


@dataclass(frozen=True, slots=True, eq=False)
class TableEntry:
    number: int
    key: bytes
    touched: int
    raw: memoryview  # the cells in the table itself

    def cells(self, function: Function, generation: int) -> Cells:
        if function in (Function.MIN, Function.MAX):
            return [self.raw[generation & 1]]
        return self.raw.tolist()

    def zero(self, cell: int) -> None:
        self.raw[cell] = 0


def physical(aggregation: Aggregation) -> int:
    """The number of cells of an entry in the table."""
    return 2 if aggregation.what.function in (Function.MIN, Function.MAX) else aggregation.what.cells


def entries(
    memory: ProgramMemory, bank: int, shard: int, known: Mapping[int, Aggregation], errors: list[StoreError]
) -> Iterator[TableEntry]:
    """All published entries. Impossible ones are left out, and reported once for the table in ``errors``."""
    if memory.table(bank, shard).used == GRANULE:
        return  # its slots are not looked at, since that would allocate them
    places = list(_places(memory.slots(bank, shard)))
    heap = memory.heap(bank, shard)
    once = sorted(set(places))
    bad = len(places) - len(once)
    for place in once:
        entry = _entry(heap, place, known)
        if entry is None:
            bad += 1
        else:
            yield entry
    if bad:
        errors.append(StoreError("stream-corrupt", f"table {bank}.{shard}: {bad} impossible entries"))


def _places(slots: memoryview) -> Iterator[int]:
    """The places in the heap of the published entries. Most slots are empty, and are passed over by pages."""
    whole = slots.tobytes()
    for at in range(0, len(whole), PAGE):
        page = whole[at : at + PAGE]
        if page.strip(b"\0"):
            yield from (slot & 0xFFFFFFFF for slot in memoryview(page).cast("Q") if slot)


def _entry(heap: memoryview, place: int, known: Mapping[int, Aggregation]) -> TableEntry | None:
    if not GRANULE // 8 <= place <= len(heap) - _HEAD_WORDS:
        return None
    number, key_size, cells, touched = heap[place : place + _HEAD_WORDS].cast("B").cast("I").tolist()
    aggregation = known.get(number)
    if aggregation is None or cells != physical(aggregation) or key_size > (aggregation.key_size + 7) & -8:
        return None
    start = place + _HEAD_WORDS
    end = start + (key_size + 7) // 8
    if end + cells > len(heap):
        return None
    key = heap[start:end].tobytes()[:key_size]
    if aggregation.keys and aggregation.keys[-1].kind is Kind.USTACK:  # a stack was recorded only as deep as it is
        key = key.ljust(aggregation.key_size, b"\0")
    return TableEntry(number, key, touched, heap[end : end + cells])


def wipe(memory: ProgramMemory, bank: int, shard: int) -> None:
    """Empty a table that nothing uses."""
    table, heap = memory.table(bank, shard), memory.heap(bank, shard)
    for part in (heap[: (table.used + 7) // 8], memory.slots(bank, shard), memory.direct(bank, shard)):
        whole = part.cast("B")
        whole[:] = bytes(len(whole))
    table.used = GRANULE


def merge(function: Function, a: Cells, b: Cells) -> Cells:
    """The cells of a key that is in two tables."""
    if function in (Function.MIN, Function.MAX):
        return [max(a[0], b[0])]
    if function is Function.STDDEV:
        return _wide([*_sums(a[:2], b[:2], 1)], _square(a) + _square(b))
    return _sums(a, b, 1)


def minus(function: Function, now: Cells, then: Cells) -> Cells:
    """The cells of the updates after ``then``. It is never called for MIN and MAX, which have no base."""
    if function is Function.STDDEV:
        return _wide(_sums(now[:2], then[:2], -1), _square(now) - _square(then))
    return _sums(now, then, -1)


def shown(function: Function, cells: Cells) -> tuple[int, ...]:
    """The cells as readers expect them: signed, but for counts and sums of squares."""
    if function is Function.MIN:
        return (signed(cells[0] ^ MIN_FLIP),)
    if function is Function.MAX:
        return (signed(cells[0] ^ MAX_FLIP),)
    plain = _UNSIGNED.get(function, ())
    return tuple(cell if index in plain else signed(cell) for index, cell in enumerate(cells))


def _sums(a: Cells, b: Cells, sign: int) -> Cells:
    return [(x + sign * y) & _MASK for x, y in zip(a, b, strict=True)]


def _square(cells: Cells) -> int:
    return cells[2] | cells[3] << 64


def _wide(first: Cells, square: int) -> Cells:
    return [*first, square & _MASK, square >> 64 & _MASK]
