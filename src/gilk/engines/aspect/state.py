# SPDX-License-Identifier: LGPL-2.1-or-later
"""The state of woven aspects, in memory shared with the process (native/include/gilk_aspect.h): laid out, and read.

The process may have written anything there: numbers are bounded before they are used, and are otherwise only shown.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from gilk.lang.aspect.checked import CheckedTable
from gilk.lang.aspect.code.meeting import NumberedAspect
from gilk.lang.aspect.woven import AspectCounts, TableRow
from gilk.trace.clock import Clock

ASPECTS, ELEMENTS = 64, 32
_COUNTS = ("begun", "ended", "until", "late", "replaced", "lost", "crowded", "missed")
_PART = np.dtype(
    [
        *((name, "<u8") for name in ("on", "limit", "first", "within", "high", "open", "serial", "hint")),
        ("matches", "<u8", (ELEMENTS,)),
        *((name, "<u8") for name in _COUNTS),
    ]
)
_HEAD = 64
_INSTANCE = 608  # struct gilk_instance
_ENTRY = np.dtype(
    [
        ("state", "<u8"), ("count", "<u8"), ("sum", "<i8"), ("least", "<i8"), ("most", "<i8"), ("unused", "<u8", (3,)),
        ("key", "u1", (64,)),
    ]
)  # fmt: skip
_TABLE_HEAD = 64
_ENTRIES = 4096  # of a table
_PAGE = 4096
_STAGE_AT, _STAGES = np.uint64(1), np.uint64(0x7FFF)


def _up(at: int) -> int:
    return -(-at // _PAGE) * _PAGE


#: Where sets of ranges of code begin in the state.
RANGES = _up(_HEAD + ASPECTS * _PART.itemsize)


class CodeRanges:
    """Sets of ranges of a process's code, each known by where it lies in the state."""

    def __init__(self) -> None:
        self._words: list[int] = []
        self._places: dict[tuple[tuple[int, int], ...], int] = {}

    def place(self, ranges: Iterable[tuple[int, int]]) -> int:
        """The place of a set, in bytes from the start of the state; equal sets have the same place."""
        key = tuple(sorted(set(ranges)))
        if key not in self._places:
            self._places[key] = RANGES + 8 * len(self._words)
            self._words += [len(key), *(word for each in key for word in each)]
        return self._places[key]

    @property
    def size(self) -> int:
        return 8 * len(self._words)

    def packed(self) -> bytes:
        """A word says how many there are, then each has its start and its end."""
        return struct.pack(f"<{len(self._words)}Q", *self._words)


class WovenLayout:
    """Where everything lies, from the start of the state; ``size`` in bytes."""

    def __init__(
        self, aspects: Sequence[NumberedAspect], tables: Sequence[CheckedTable], ranges: CodeRanges
    ) -> None:
        self.ranges = ranges
        at = _up(RANGES + ranges.size)
        self.instances: dict[int, int] = {}
        for aspect in aspects:
            self.instances[aspect.number] = at
            at = _up(at + _INSTANCE * aspect.automaton.instances * aspect.is_sequence)
        self.tables: dict[str, int] = {}
        for table in tables:
            self.tables[table.name] = at
            at = _up(at + _TABLE_HEAD + _ENTRIES * _ENTRY.itemsize)
        self.size = at


class WovenState:
    """The state of one process."""

    def __init__(self, layout: WovenLayout, aspects: Sequence[NumberedAspect], view: memoryview, clock: Clock) -> None:
        self._layout, self._aspects, self._view = layout, aspects, view
        self._parts = np.frombuffer(view, _PART, ASPECTS, _HEAD)
        struct.pack_into("<Q", view, 0, int((1 << 32) / clock.ticks_per_ns))
        for aspect in aspects:
            part = self._parts[aspect.number]
            within = aspect.automaton.within
            part["limit"] = aspect.automaton.instances * aspect.is_sequence
            part["first"] = layout.instances[aspect.number]
            part["within"] = 0 if within is None else max(int(within * clock.ticks_per_ns), 1)
        for at in layout.tables.values():
            struct.pack_into("<Q", view, at, _ENTRIES)
        view[RANGES : RANGES + layout.ranges.size] = layout.ranges.packed()

    def switch(self, on: bool) -> None:
        """All aspects of the process, from their next match on."""
        for aspect in self._aspects:
            self._parts[aspect.number]["on"] = int(on)

    def counts(self) -> tuple[AspectCounts, ...]:
        return tuple(map(self._counted, self._aspects))

    def _counted(self, aspect: NumberedAspect) -> AspectCounts:
        part = self._parts[aspect.number]
        matches = tuple(int(n) for n in part["matches"][: len(aspect.checked.elements)])
        if not aspect.is_sequence:
            return AspectCounts(aspect.label, matches, matches[0], 0, matches[0], 0, 0, 0, 0, int(part["crowded"]), 0)
        counted = {name: int(part[name]) for name in _COUNTS}
        return AspectCounts(aspect.label, matches, open=int(part["open"]), **counted)

    def rows(self, table: str) -> Iterator[TableRow]:
        """The entries of a table, in no order."""
        at = self._layout.tables[table]
        for entry in np.frombuffer(self._view, _ENTRY, _ENTRIES, at + _TABLE_HEAD):
            if entry["state"] == 2:
                numbers = (int(entry[name]) for name in ("count", "sum", "least", "most"))
                yield TableRow(entry["key"].tobytes(), *numbers)

    def lost(self, table: str) -> int:
        """How much was not added, for want of room."""
        (lost,) = struct.unpack_from("<Q", self._view, self._layout.tables[table] + 8)
        return int(lost)
