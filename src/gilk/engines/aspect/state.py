# SPDX-License-Identifier: LGPL-2.1-or-later
"""The state of woven aspects (native/include/gilk_aspect.h): its layout, and reading it. All processes share a common
part; each has a private part.

The processes may have written anything there: numbers are bounded before they are used, and are otherwise only shown.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gilk.engines.aspect.thread_groups import SIZE as THREADS_SIZE
from gilk.engines.aspect.thread_groups import ThreadTable
from gilk.lang.aspect.automaton import Sharing
from gilk.lang.aspect.checked import CheckedTable
from gilk.lang.aspect.code.meeting import NumberedAspect
from gilk.lang.aspect.code.regions import has_index
from gilk.lang.aspect.woven import AspectCounts, TableRow
from gilk.targets.atomic import set_bit
from gilk.trace.clock import Clock
from gilk.values import dataclass

Array = NDArray[Any]
ASPECTS, ELEMENTS = 64, 32
_COUNTS = ("begun", "ended", "until", "late", "replaced", "lost", "crowded", "missed", "gone", "unwalked", "disagreed")
_PART = np.dtype(
    [
        *((name, "<u8") for name in ("high", "open", "serial", "hint", "marked")),
        ("unused", "<u8", (3,)),
        ("matches", "<u8", (ELEMENTS,)),
        *((name, "<u8") for name in _COUNTS),
    ]
)
_HEAD = 64
#: The offset of the bounds of all watched memory in the common state.
BOUNDS = 8
#: The offsets of words in the common state: whether it stays, and what describes it to processes that find it.
STAYS, _TOLD = 24, 32
_STAYS = int.from_bytes(b"gilkstay", "little")
_TOLD_SIZE = 1 << 16  # bytes
_FARTHEST = 1 << 46  # bytes from the start of the state
_INSTANCE = 608  # bytes
_HEADS = np.dtype(  # struct gilk_instance
    [
        *((name, "<u8") for name in ("word", "serial", "since")), ("pid", "<u4"), ("tid", "<u4"), ("gone", "<u8"),
        ("record", "V568"),
    ]
)  # fmt: skip
_BUSY, _DEAD, _STAGES, _ABOVE = np.uint64(1), 0x7FFF, np.uint64(0x7FFF), np.uint64(16)
_LIMITS = struct.Struct("<4Q")  # struct gilk_limits
_BUCKETS = 127  # native/abi/gilk_bucket.h
_ENTRY = np.dtype(
    [
        ("state", "<u8"), ("count", "<u8"), ("sum", "<i8"), ("least", "<i8"), ("most", "<i8"), ("squares", "<u8", (2,)),
        ("unused", "<u8"), ("key", "u1", (64,)),
    ]
)  # fmt: skip
_BUCKETED = np.dtype([*((name, _ENTRY[name]) for name in _ENTRY.names or ()), ("buckets", "<u8", (_BUCKETS + 1,))])
_MOST_LOOKS = 4096  # how many threads are looked at each time: their numbers come from the processes
_TABLE_HEAD = 64
_ENTRIES = 4096  # entries of a table
_PAGE = 4096
_BUCKET = 64  # bytes of a bucket of an index of instances, and of the head in front of the buckets
_LEAST_BITS = 6


def _up(at: int) -> int:
    return -(-at // _PAGE) * _PAGE


_INSTANCES = _up(_HEAD + ASPECTS * _PART.itemsize)
#: The offset of the sets of code ranges in the private part.
RANGES = _up(_HEAD + ASPECTS * _LIMITS.size)


def _joined(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The ranges, which are in order, with those that meet made one."""
    before: tuple[int, int] | None = None
    for low, high in ranges:
        if before is not None and low <= before[1]:
            before = before[0], max(before[1], high)
            continue
        if before is not None:
            yield before
        before = low, high
    if before is not None:
        yield before


class CodeRanges:
    """Sets of address ranges of a process's code. A set is known by its offset in the private part."""

    def __init__(self) -> None:
        self._words: list[int] = []
        self._places: dict[tuple[tuple[int, int], ...], int] = {}

    def place(self, ranges: Iterable[tuple[int, int]]) -> int:
        """The offset of a set, in bytes from the start of the private part; equal sets share it."""
        key = tuple(_joined(sorted(set(ranges))))
        if key not in self._places:
            self._places[key] = RANGES + 8 * len(self._words)
            self._words += [len(key), *(word for each in key for word in each)]
        return self._places[key]

    @property
    def size(self) -> int:
        return 8 * len(self._words)

    def packed(self) -> bytes:
        """The sets as bytes: for each, a word with the number of ranges, then their starts and ends."""
        return struct.pack(f"<{len(self._words)}Q", *self._words)


class WovenLayout:
    """The offsets of everything in the common part; ``size`` is in bytes."""

    def __init__(self, aspects: Sequence[NumberedAspect], tables: Sequence[CheckedTable]) -> None:
        at = _INSTANCES
        self.instances: dict[int, int] = {}
        for aspect in aspects:
            self.instances[aspect.number] = at
            at = _up(at + _INSTANCE * aspect.automaton.instances * aspect.is_sequence)
        self.tables: dict[str, int] = {}
        self.entries = {table.name: _BUCKETED if table.fold == "quantize" else _ENTRY for table in tables}
        for table in tables:
            self.tables[table.name] = at
            at = _up(at + self._table_size(table.name))
        #: By number of an aspect: the offset of the index of its instances, and log2 of the number of its buckets.
        self.indexes: dict[int, tuple[int, int]] = {}
        for aspect in aspects:
            if has_index(aspect):
                bits = max((4 * aspect.automaton.instances - 1).bit_length(), _LEAST_BITS)
                self.indexes[aspect.number] = at, bits
                at = _up(at + _BUCKET * (1 + (1 << bits)))
        #: The offset of the table of threads that are members by themselves (thread_groups.py).
        self.threads = at
        at = _up(at + THREADS_SIZE)
        self.told = at
        self.size = at + _TOLD_SIZE

    def told_parts(self) -> Iterator[tuple[int, int]]:
        """The ranges of offsets, start and end, that counts and tables take."""
        yield 0, _INSTANCES
        for name, at in self.tables.items():
            yield at, at + self._table_size(name)

    def _table_size(self, name: str) -> int:
        return _TABLE_HEAD + _ENTRIES * self.entries[name].itemsize

    def index(self, number: int) -> int:
        """A word with offset and log2 of the size of an aspect's index; 0 if it has none."""
        at, bits = self.indexes.get(number, (0, 0))
        return at << 8 | bits


def private_part(
    layout: WovenLayout,
    aspects: Sequence[NumberedAspect],
    ranges: CodeRanges,
    clock: Clock,
    unwind: int = 0,
    groups: int = 0,
) -> bytes:
    """The private part: struct gilk_woven_private, then the sets of ranges; private_size() bytes. ``unwind``: how many
    bytes follow it for unwind tables. ``groups``: those that the process is a member of, a bit each."""
    limits = bytearray(ASPECTS * _LIMITS.size)
    for aspect in aspects:
        within = aspect.automaton.within
        ticks = 0 if within is None else max(int(within * clock.ticks_per_ns), 1)
        limit = aspect.automaton.instances * aspect.is_sequence
        numbers = limit, layout.instances[aspect.number], ticks, layout.index(aspect.number)
        _LIMITS.pack_into(limits, aspect.number * _LIMITS.size, *numbers)
    scale = int((1 << 32) / clock.ticks_per_ns)
    words = scale, private_size(ranges), unwind, groups, layout.threads
    head = struct.pack("<5Q", *words).ljust(_HEAD, b"\0")
    return ((head + bytes(limits)).ljust(RANGES, b"\0") + ranges.packed()).ljust(private_size(ranges), b"\0")


def private_size(ranges: CodeRanges) -> int:
    """How many bytes the private part has, without the unwind tables."""
    return _up(RANGES + ranges.size)


def _ended(heads: Array, chosen: Array, tids: Array, has_ended: Callable[[int, int], bool]) -> list[int]:
    """The rows among ``chosen`` whose thread has ended; if the thread's number is 0, whose process has ended."""
    rows = np.flatnonzero(chosen).tolist()
    of = {row: (int(heads["pid"][row]), int(tids[row]) & 0xFFFFFFFF) for row in rows}
    gone = {who for who in islice(dict.fromkeys(of.values()), _MOST_LOOKS) if has_ended(*who)}
    return [row for row, who in of.items() if who in gone]


def _counted(part: Array, label: str, elements: int, is_sequence: bool) -> AspectCounts:
    matches = tuple(int(n) for n in part["matches"][:elements])
    if not is_sequence:
        once, crowded = matches[0], int(part["crowded"])
        walked = int(part["unwalked"]), int(part["disagreed"])
        return AspectCounts(label, matches, once, 0, once, 0, 0, 0, 0, crowded, 0, 0, *walked)
    counted = {name: int(part[name]) for name in _COUNTS}
    waiting = min(max(int(part["marked"]) - counted["gone"], 0), int(part["open"]))  # gone, their room not needed yet
    counted["gone"] += waiting
    return AspectCounts(label, matches, open=int(part["open"]) - waiting, **counted)


@dataclass(frozen=True, slots=True)
class StayingState:
    """A common state that was found in a process. ``told``: the JSON in it, which the process may have overwritten."""

    on: int
    told: Mapping[str, Any]
    parts: Array

    def counts(self, number: int, label: str, elements: int, is_sequence: bool) -> AspectCounts:
        return _counted(self.parts[number], label, min(max(elements, 1), ELEMENTS), is_sequence)


def staying(read: Callable[[int, int], bytes]) -> StayingState | None:
    """The common state, read with ``read(offset, size)``; None if there is none, or if it is not one that stays. Raises
    OSError."""
    on, _, _, stays, at, size = struct.unpack("<6Q", read(0, 48))
    if stays != _STAYS or size > _TOLD_SIZE or at > _FARTHEST:
        return None
    try:
        told = json.loads(read(at, size))
    except ValueError:
        return None
    parts = np.frombuffer(read(_HEAD, ASPECTS * _PART.itemsize), _PART)
    return StayingState(on, told, parts) if isinstance(told, dict) else None


class WovenState:
    """The common part of a weaving's state. ``view``: the weaver's mapping of it."""

    def __init__(self, layout: WovenLayout, aspects: Sequence[NumberedAspect], view: memoryview) -> None:
        self._layout, self._aspects, self._view = layout, aspects, view
        self._on = np.frombuffer(view, "<u8", 1)
        self._parts = np.frombuffer(view, _PART, ASPECTS, _HEAD)
        self._busy: dict[int, Array] = {}  # by aspect, the words of the instances at the last look

    def switch(self, on: bool) -> None:
        """Switch all aspects, from their next match on, in all processes at one moment: by one store."""
        self._on[0] = sum(1 << one.number for one in self._aspects) * on

    def stay(self, on: bool) -> None:
        """Set whether everything stays in all processes when the weaver is killed; by one store."""
        struct.pack_into("<Q", self._view, STAYS, _STAYS * on)

    def tell(self, words: Mapping[str, Any]) -> None:
        """Write a description of the weaving, for processes that find the state when the weaver has gone."""
        text = json.dumps(words).encode()
        if len(text) <= _TOLD_SIZE:
            self._view[self._layout.told : self._layout.told + len(text)] = text
            struct.pack_into("<2Q", self._view, _TOLD, self._layout.told, len(text))

    def turn(self, number: int, on: bool) -> None:
        """Switch one aspect; bits that advice sets for others meanwhile are kept. Raises OSError."""
        set_bit(self._view, 0, number, on)

    @property
    def on_bits(self) -> int:
        """The aspects that are on, a bit each."""
        return int(self._on[0])

    def is_on(self, number: int) -> bool:
        return bool(int(self._on[0]) >> number & 1)

    def threads(self, every: Sequence[str]) -> ThreadTable:
        """The table of threads that are members by themselves. ``every``: the groups of the file, in its order."""
        return ThreadTable(self._view, self._layout.threads, every)

    def counts(self) -> tuple[AspectCounts, ...]:
        return tuple(map(self._counted, self._aspects))

    def _counted(self, aspect: NumberedAspect) -> AspectCounts:
        return _counted(self._parts[aspect.number], aspect.label, len(aspect.checked.elements), aspect.is_sequence)

    def release(self, has_ended: Callable[[int, int], bool]) -> None:
        """Mark instances that no thread can continue any more, and free those whose writers died while they wrote.

        ``has_ended(pid, tid)``: whether a thread has ended, or the process if ``tid`` is 0.
        """
        for aspect in self._aspects:
            if aspect.is_sequence:
                self._release(aspect, has_ended)

    def _release(self, aspect: NumberedAspect, has_ended: Callable[[int, int], bool]) -> None:
        part, limit = self._parts[aspect.number], aspect.automaton.instances
        high = min(int(part["high"]), limit)
        heads = np.frombuffer(self._view, _HEADS, high, self._layout.instances[aspect.number])
        words = heads["word"].copy()
        for row in _ended(heads, self._stuck(aspect.number, words), words >> _ABOVE, has_ended):
            heads["word"][row] = int.from_bytes(os.urandom(6), "little") << 16 | _DEAD << 1
            part["marked"] += np.uint64(1)
        if aspect.automaton.sharing is not Sharing.ANY:
            self._mark_gone(part, heads, words, aspect.automaton.sharing, has_ended)

    def _stuck(self, number: int, words: Array) -> Array:
        """Whether, by row, the same thread was writing the instance already at the last look.

        In the kernel, a task that is ending and an interrupt of an idle processor (as thread 0) write, too, but only
        for a moment.
        """
        before = self._busy.get(number, words[:0])
        self._busy[number] = words
        found: Array = ((words & _BUSY) != 0) & (words >> _ABOVE != 0)
        found[: len(before)] &= words[: len(before)] == before[: len(words)]
        found[len(before) :] = False
        return found

    @staticmethod
    def _mark_gone(
        part: Array, heads: Array, words: Array, sharing: Sharing, has_ended: Callable[[int, int], bool]
    ) -> None:
        """Mark the open instances whose thread, or process, has ended. ``words``: the instances' words, read before."""
        open_ = ((words & _BUSY) == 0) & ((words >> np.uint64(1) & _STAGES) != 0) & (heads["gone"] != heads["serial"])
        open_ &= (words >> np.uint64(1) & _STAGES) != _DEAD
        numbers = heads["tid"] if sharing is Sharing.THREAD else np.zeros(len(heads), np.uint32)
        for row in _ended(heads, open_, numbers, has_ended):
            heads["gone"][row] = heads["serial"][row]
            part["marked"] += np.uint64(1)

    def rows(self, table: str) -> Iterator[TableRow]:
        """The entries of a table, in no particular order."""
        at, kind = self._layout.tables[table], self._layout.entries[table]
        for entry in np.frombuffer(self._view, kind, _ENTRIES, at + _TABLE_HEAD):
            if entry["state"] == 2:
                count, total, least, most = (int(entry[name]) for name in ("count", "sum", "least", "most"))
                squares = int.from_bytes(entry["squares"].tobytes(), "little")
                buckets = entry["buckets"][:_BUCKETS].tolist() if kind is _BUCKETED else ()
                yield TableRow(entry["key"].tobytes(), count, total, least, most, squares, tuple(buckets))

    def lost(self, table: str) -> int:
        """How many values were not added to the table for lack of room."""
        (lost,) = struct.unpack_from("<Q", self._view, self._layout.tables[table])
        return int(lost)
