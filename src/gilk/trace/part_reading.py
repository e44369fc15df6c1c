# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads the samples of a file a part at a time: plain calls are put aside in a spool, other samples are kept."""

from __future__ import annotations

import tempfile
from dataclasses import replace

import numpy as np
import pyarrow as pa

from gilk import private
from gilk.trace import executed
from gilk.trace.about import About, Tally
from gilk.trace.call_index import Column
from gilk.trace.flow import KERNEL
from gilk.trace.nesting import Ints
from gilk.trace.paths import Symbol
from gilk.trace.probes import RecordKind
from gilk.trace.reduction import MOST_STACKS, EarlierParts, Plain, RecordColumns, Reduced, reduce
from gilk.values import dataclass

PLAIN = ("start", "duration", "symbol", "levels")  # fields of a `Plain` that are put aside
_SIDES = {RecordKind.ENTRY: 1, RecordKind.HEAD: 1, RecordKind.RETURN: -1}


class Whole(Exception):
    """The file cannot be handled in parts, and has to be handled as a whole."""


class Spool:
    """Arrays that are put aside, in a file without a name."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(dir=private.temporary())  # noqa: SIM115
        self._at = 0

    def close(self) -> None:
        self._file.close()

    def put(self, values: Column) -> tuple[int, int, str]:
        at, data = self._at, np.ascontiguousarray(values)
        self._file.write(data.tobytes())
        self._at += data.nbytes
        return at, len(data), data.dtype.str

    def get(self, where: tuple[int, int, str]) -> Column:
        at, count, kind = where
        self._file.seek(at)
        return np.fromfile(self._file, kind, count)


class Unkept(Spool):
    """Arrays of which only the number is of interest."""

    def __init__(self) -> None:
        pass

    def close(self) -> None:
        pass

    def put(self, values: Column) -> tuple[int, int, str]:
        return 0, len(values), values.dtype.str


@dataclass(frozen=True, eq=False)
class KeptPart:
    """A part of a file: the samples that were kept, and the places of its plain calls in the spool."""

    table: pa.Table
    reduced: Reduced
    next_time: Ints
    first_time: int | None  # the time of the first event
    thread: Column  # the threads of the kept samples
    spooled: dict[str, tuple[int, int, str]]


class PartReading:
    def __init__(self, about: About, tally: Tally, spool: Spool | None = None) -> None:
        """``spool``: has the plain calls; a file of its own if it is None."""
        self.seen = EarlierParts()
        self.parts: list[KeptPart] = []
        self.symbols: list[Symbol] = []
        self.threads: dict[int, int] = {}
        self.spool = spool or Spool()
        self.kernel_from: dict[int, int] = {}  # by thread, the time of the first plain call in the kernel
        self._images = {probe.point: probe.image for probe in about.probes}
        self._codes: dict[tuple[str, str], int] = {}
        self._odd = {probe.function for probe in about.probes if probe.kind == RecordKind.HEAD}
        omitted = tally.trace.omitted if tally.trace is not None else ()
        self._times = np.array(sorted({each.from_ns for each in omitted}), np.int64)
        self._rows, self._events, self._last = 0, 0, -(1 << 62)
        self.samples = 0

    def __enter__(self) -> PartReading:
        return self

    def __exit__(self, *_: object) -> None:
        self.spool.close()

    def processes(self) -> Ints:
        """The process of each thread, by the thread's number."""
        return np.array([key >> 32 for key in self.threads], np.int64)

    def take(self, table: pa.Table) -> None:
        table = table.unify_dictionaries().combine_chunks()
        if not table.num_rows:
            return
        if len(executed.marks(table)):
            raise Whole("processes have executed programs")
        time = _numbers(table, "time")
        if time[0] < self._last or (time[1:] < time[:-1]).any():
            raise Whole("samples came late")
        self._last = int(time[-1])
        part = self._part(table, time)
        found = reduce(part, self.seen, len(self.threads))
        if self.seen.too_many:
            raise Whole(f"there are more than {MOST_STACKS} threads")
        self._put(table, part, found)

    def _part(self, table: pa.Table, time: Ints) -> RecordColumns:
        kinds = table["kind"].combine_chunks()
        names = kinds.dictionary.to_pylist()
        side = np.array([*(_SIDES.get(name, 0) for name in names), 0], np.int8)[_codes(kinds)]
        gaps = np.array([*(name == RecordKind.GAP for name in names), False])[_codes(kinds)]
        symbol = self._symbols(table)
        thread = self._threads(table, side)
        walls = np.concatenate([np.flatnonzero(gaps), np.searchsorted(time, self._times, "right")])
        is_kernel = np.array([image == KERNEL for _, image, _ in self.symbols])
        odd = np.array([name in self._odd or not name for name, _, _ in self.symbols])
        return RecordColumns(time, thread, side, _numbers(table, "sp"), symbol, is_kernel, odd, np.unique(walls))

    def _symbols(self, table: pa.Table) -> Column:
        """The symbol of each sample; a sample without a function has a symbol of its own."""
        functions, points = (table[name].combine_chunks() for name in ("function", "point"))
        names = [*functions.dictionary.to_pylist(), ""]
        images = [*(self._images.get(name, "") for name in points.dictionary.to_pylist()), ""]
        distinct = {name: number for number, name in enumerate(dict.fromkeys(images))}
        image = np.array([distinct[name] for name in images], np.int64)[_codes(points)]
        keys = _codes(functions) % len(names) * len(distinct) + image
        of_key = np.zeros(len(names) * len(distinct), np.int32)
        used = np.zeros(len(of_key), np.bool_)
        used[keys] = True
        each = list(distinct)
        for key in np.flatnonzero(used).tolist():
            of_key[key] = self._symbol(names[key // len(distinct)], each[key % len(distinct)])
        found: Column = of_key[keys]
        return found

    def _symbol(self, name: str, image: str) -> int:
        if (name, image) not in self._codes:
            self._codes[name, image] = len(self.symbols)
            self.symbols.append((name, image, KERNEL if image == KERNEL else "user"))
        return self._codes[name, image]

    def _threads(self, table: pa.Table, side: Column) -> Column:
        """The number of each sample's thread. Threads are numbered in the order of their first events."""
        keys = _numbers(table, "pid").astype(np.int64) << 32 | _numbers(table, "tid").view(np.uint32)
        found = self._looked_up(keys)
        new = np.flatnonzero(found < 0)
        if len(new):
            mine = keys[new][side[new] != 0]
            distinct, at = np.unique(mine, return_index=True)
            for key in distinct[np.argsort(at)].tolist():
                self.threads.setdefault(key, len(self.threads))
            if len(self.threads) >= 1 << 16:
                raise Whole("there are too many threads")
            found = np.maximum(self._looked_up(keys), 0)  # the number of a thread without events is never used
        return found.astype(np.uint16)

    def _looked_up(self, keys: Ints) -> Ints:
        """The numbers of threads; -1 for unknown ones."""
        known = np.array(sorted(self.threads), np.int64)
        numbers = np.array([self.threads[key] for key in known.tolist()], np.int64)
        if not len(known):
            return np.full(len(keys), -1, np.int64)
        hashed = (known ^ known >> 26) & 0xFFFF
        if len(np.unique(hashed)) == len(hashed):
            table = np.zeros(1 << 16, np.int32)
            table[hashed] = np.arange(len(known))
            at = table[(keys ^ keys >> 26) & 0xFFFF]
        else:
            at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[at] == keys, numbers[at], -1)

    def _put(self, table: pa.Table, part: RecordColumns, found: Reduced) -> None:
        kept_others = part.side[found.rows] != 0
        kinds = table["kind"].combine_chunks().take(pa.array(found.rows)).to_pylist() if not kept_others.all() else []
        wanted = kept_others.copy()
        for at in np.flatnonzero(~kept_others).tolist():
            wanted[at] = kinds[at] == RecordKind.GAP
        wanted[[0, -1]] = True
        place = np.cumsum(wanted) - 1
        plain = replace(found.plain, record=place[found.plain.record])
        rows = found.rows[wanted]
        next_row = found.next_row[wanted]
        behind = next_row < len(part.time)
        next_time = np.where(behind, part.time[np.minimum(next_row, len(part.time) - 1)], -1)
        reduced = Reduced(rows + self._rows, found.before[wanted], found.number[wanted] + self._events, next_row, plain)
        spooled = {name: self.spool.put(getattr(plain, name)) for name in PLAIN}
        none = np.empty(0, np.int64)
        light = replace(plain, start=none, duration=none, symbol=none.astype(np.int32), levels=none.astype(np.int32))
        self._note_kernel(part, plain)
        kept = table.take(pa.array(rows))
        events = np.flatnonzero(part.side)
        first = int(part.time[events[0]]) if len(events) else None
        self.parts.append(KeptPart(kept, replace(reduced, plain=light), next_time, first, part.thread[rows], spooled))
        self._rows += table.num_rows
        self._events += len(events)
        self.samples += table.num_rows

    def _note_kernel(self, part: RecordColumns, plain: Plain) -> None:
        mine = part.kernel[plain.symbol]
        if mine.any():
            thread = np.repeat(np.arange(len(plain.counts)), plain.counts)[mine]
            for each in np.unique(thread).tolist():
                self.kernel_from.setdefault(each, int(plain.start[mine][thread == each].min()))


def _numbers(table: pa.Table, name: str) -> Column:
    return np.asarray(table[name].combine_chunks())


def _codes(column: pa.Array) -> Ints:
    """The codes of a dictionary array; -1 for null."""
    return np.asarray(column.indices.fill_null(-1))
