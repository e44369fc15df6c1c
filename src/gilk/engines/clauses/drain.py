# SPDX-License-Identifier: LGPL-2.1-or-later
"""The records and counts of clauses, in the form that other instruments' records and counts have."""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gilk.engines.clauses.program import COUNTS, STACKS
from gilk.engines.dtrace.tracing import Engine, Firing, Happening
from gilk.trace.clock import Clock
from gilk.trace.d.events import DropKind, Dropped, Faulted
from gilk.trace.drain import Chunk, Identity
from gilk.trace.layout import RECORDS
from gilk.trace.probes import ProbeRow, RecordKind

_STAMP, _ARGS, _REGS = 0, 2, 3
_CLASSES = {RecordKind.ARGS: _ARGS, RecordKind.REGS: _REGS}
_ROOM = 16 << 20  # bytes that stand for a full buffer
_REST = 4  # how many times longer than a look at the counts the pause after it is

Row = tuple[int, ...]  # time in ticks, iid, stack pointer, and the values of its class


class ClauseDrain:
    """A RecordSource that reads an engine of D. ``rows``: by number of a probe. ``counters``: how many rows have
    numbers."""

    doubts: tuple[str, ...] = ()
    unknown: NDArray[np.bool_] | None = None
    corrupt = 0

    def __init__(self, engine: Engine, clock: Clock, rows: Mapping[int, ProbeRow], counters: int) -> None:
        self._engine, self._clock, self._rows = engine, clock, rows
        self._counts = np.zeros(counters, np.uint64)
        self._next_look = 0.0
        self._threads: dict[tuple[int, int], None] = {}
        self._dropped: Counter[DropKind] = Counter()
        self.faults = 0  # how often conditions or clauses could not read memory
        self._numbers = {each.name: each.number for each in engine.known}

    # Records.

    def poll(self, final: bool = False) -> list[Chunk]:
        found: dict[tuple[int, int, int], list[Row]] = {}
        for happening in self._engine.poll(final):
            self._take(happening, found)
        for dropped in self._engine.losses():
            self._dropped[dropped.kind] += dropped.count
        self.corrupt += sum(1 for _ in self._engine.corruptions())
        self._threads = {(pid, tid): None for pid, tid, _ in found}
        return [_chunk(*key, rows) for key, rows in found.items()]

    def _take(self, happening: Happening, found: dict[tuple[int, int, int], list[Row]]) -> None:
        match happening:
            case Firing() if happening.probe.number in self._rows:
                row = self._rows[happening.probe.number]
                number = _CLASSES.get(RecordKind(row.kind), _STAMP)
                made = found.setdefault((happening.pid, happening.tid, number), [])
                made += self._records(row, happening)
            case Dropped(kind=kind, count=count):
                self._dropped[kind] += count
            case Faulted():
                self.faults += 1

    def _records(self, row: ProbeRow, firing: Firing) -> Iterable[Row]:
        """The records of a firing: one, and before the return of a timed call also its entry, which was not recorded
        before."""
        values = struct.unpack_from(f"<{len(firing.data) // 8}Q", firing.data)
        now, low = self._ticks(firing.time), values[0] & 0xFFFFFFFF if values else 0
        if row.kind == RecordKind.RETURN and len(values) > 1:
            yield self._ticks(values[1]), row.iid - 1, low
        yield (now, row.iid, low, *values[1:])

    def _ticks(self, ns: int) -> int:
        """Ticks from a time in ns, by the clock by which the engine made ns of them."""
        return min(max(self._clock.to_tsc(ns), 0), (1 << 64) - 1)

    def retire(self, live: Set[tuple[int, int]]) -> list[Chunk]:
        return []

    def identities(self) -> list[Identity]:
        """The threads of the last records."""
        return [Identity(pid, tid, 0) for pid, tid in self._threads]

    def capacity(self, number: int) -> int:
        return _ROOM

    def tails(self) -> dict[tuple[int, int], int]:
        return {}

    # Counts.

    def look(self) -> None:
        """Have the next counts() sum up anew."""
        self._next_look = 0.0

    def counts(self) -> NDArray[np.uint64]:
        """The counts, by counter. Summing up takes a while, so that they may be somewhat old, unless ``look`` was
        called."""
        began = time.monotonic()
        if began >= self._next_look:
            self._counts[:] = 0
            for (_, key), cells in self._engine.aggregations.snapshot(self._numbers.values()).items():
                row = self._rows.get(probe_of(key))
                if row is not None and row.counter >= 0:
                    self._counts[row.counter] += np.uint64(cells[0])
            now = time.monotonic()
            self._next_look = now + _REST * (now - began)
        return self._counts.copy()

    def stacks(self) -> dict[bytes, int]:
        """How often each key was counted; a key has the number of a probe, and a stack."""
        number = self._numbers.get(STACKS)
        found = {} if number is None else self._engine.aggregations.snapshot([number])
        return {key: cells[0] for (_, key), cells in found.items()}

    # Losses.

    def drops(self) -> int:
        return self._dropped[DropKind.PRINCIPAL]

    def nested(self) -> int:
        return 0

    def skipped(self) -> int:
        """Always 0: clauses are not advice."""
        return 0

    def lost(self) -> int:
        return 0

    def losses(self) -> list[str]:
        """Sentences about what found no room, besides records."""
        said = {
            DropKind.AGGREGATION: f"hits are in no count, or under no stack: there was no room for more of them "
            f"({COUNTS} and {STACKS})",
            DropKind.DYNAMIC: "beginnings of calls found no room: those calls were not timed",
        }
        found = [f"{self._dropped[kind]} {text}" for kind, text in said.items() if self._dropped[kind]]
        if self.faults:
            found.append(f"{self.faults} hits left nothing: memory that a condition or a clause looks at is not there")
        return found


def probe_of(key: bytes) -> int:
    """The number of the probe at the beginning of a key."""
    return int.from_bytes(key[:4], "little")


def _chunk(pid: int, tid: int, number: int, rows: list[Row]) -> Chunk:
    records: Any = np.zeros(len(rows), RECORDS[number])
    rows.sort(key=lambda row: row[0])
    for at, name in enumerate(("tsc", "iid", "sp")):
        records[name] = [row[at] for row in rows]
    if number == _ARGS:
        records["arg"] = [row[3:9] for row in rows]
    elif number == _REGS:
        records["reg"] = [row[3:21] for row in rows]
    return Chunk(Identity(pid, tid, 0), number, records)
