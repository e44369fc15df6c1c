# SPDX-License-Identifier: LGPL-2.1-or-later
"""The stream of a session's records: from rings in shared memory to tables of samples."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from gilk.targets.threads import Threads
from gilk.trace.clock import Clock, sample
from gilk.trace.drain import Chunk, RecordSource
from gilk.trace.probes import ProbeRow

if TYPE_CHECKING:
    import pyarrow as pa

    from gilk.trace.samples import Samples

ALL_CLASSES = frozenset(range(4))
_STAMPS = ("stamp", "time-entry", "time-head", "time-return")
#: The record classes that a probe of each kind may write (native/abi/gilk_abi.h).
_WRITES = {"count": (), "stack": (), **dict.fromkeys(_STAMPS, (0,)), "args": (2,), "regs": (3,)}
_RETIRE_EVERY = 0.5  # seconds
_TICKS = 1 << 33  # more ticks than the time stamp counter makes in a second


class RecordStream:
    """Drains the buffers of one process or kernel. ``start``, in ns of CLOCK_MONOTONIC, is time 0 of the samples.

    Taking a record out of a ring costs a few ns, making a table row of it some hundred. So these are two steps: in a
    burst, the caller takes, and converts later. ``waiting``: how many bytes were taken and not converted yet.
    """

    def __init__(self, drain: RecordSource, clock: Clock, threads: Threads) -> None:
        self._drain = drain
        self._threads = threads
        self._clock = clock
        self._classes: frozenset[int] = frozenset()
        self._known = 0  # how many probes
        self._names: dict[tuple[int, int], str] = {}
        self._made: Samples | None = None
        self._retired = 0.0
        self._raw: deque[list[Chunk]] = deque()
        self.waiting = 0
        self.latest: list[Chunk] = []  # the chunks of the last take
        self.start = 0
        self.records = 0
        self.impossible = 0  # records with times before the session's first or after its last moment
        self.bounds: Callable[[], tuple[int, int]] | None = None  # in ticks; None if records have another clock
        self.unknown = 0

    @property
    def schema(self) -> pa.Schema:
        return self._samples.schema

    @property
    def _samples(self) -> Samples:
        if self._made is None:
            self._made = self._samples_of([])
        return self._made

    def _samples_of(self, probes: list[ProbeRow]) -> Samples:
        from gilk.trace.samples import Samples  # imported here: sessions without samples need not wait for it

        return Samples(probes, self._clock, self.start, self._classes, self._name)

    def name_by(self, threads: Callable[[Threads], Threads]) -> None:
        """Use other names of threads from now on; ``threads`` gets the present source of names, and returns the new
        one."""
        self._threads = threads(self._threads)

    def meet(self, pid: int, tid: int) -> None:
        """Note a thread's name early: the name of a thread that ends soon could not be read when its records arrive."""
        self._name(pid, tid)

    def align(self, start: int, clock: Clock) -> None:
        """Set time 0, in ns of CLOCK_MONOTONIC, and the clock that turns ticks into ns; call it before the first probe
        is known."""
        self.start = start
        self._clock = clock

    def know(self, probes: list[ProbeRow], start: int) -> pa.Table:
        """Take note of new probes; returns the samples of earlier probes that were held back.

        ``start`` counts only at the first call.
        """
        rest = self._counted(_one([*self._converted(), self._samples.flush()]))
        self.unknown += self._samples.unknown
        self.start = self.start or start
        self._classes |= {c for probe in probes[self._known :] for c in _WRITES.get(probe.kind, ALL_CLASSES)}
        self._known = len(probes)
        self._made = self._samples_of(probes)
        return rest

    def poll(self) -> pa.Table:
        """The samples that have arrived since the last call, in order of time."""
        self.take()
        return self._counted(_one([*self._converted(), self._samples.add([])]))

    def take(self) -> float:
        """Empty the rings, and keep the records; returns how full the fullest ring was, from 0 to 1."""
        for identity in self._drain.identities():
            if (identity.pid, identity.tid) not in self._names:
                self._name(identity.pid, identity.tid)
        chunks = self._drain.poll()
        capacity = self._drain.capacity
        fullest = max((chunk.records.nbytes / capacity(chunk.number) for chunk in chunks), default=0.0)
        now = time.monotonic()
        if now - self._retired > _RETIRE_EVERY:
            self._retired = now
            chunks += self._drain.retire(self._live())
        self.latest = chunks
        self._set_aside(chunks)
        return fullest

    def taken(self, final: bool = False) -> list[Chunk]:
        """The chunks of records since the last call, for callers that do not want samples. ``final``: nothing writes
        any more."""
        self.take()
        chunks = self.latest + (self._drain.poll(final=True) if final else [])
        self._raw.clear()
        self.waiting = 0
        return chunks

    def convert(self) -> pa.Table:
        """The samples of the oldest take; if nothing waits, those that were held back until now."""
        return self._counted(self._samples.add(self._oldest() if self._raw else []))

    def finish(self) -> pa.Table:
        """All remaining samples; call it when nothing writes records any more."""
        self._set_aside(self._drain.poll(final=True))
        return self._counted(_one([*self._converted(), self._samples.flush()]))

    def _set_aside(self, chunks: list[Chunk]) -> None:
        if self.bounds is not None and chunks:
            chunks = [self._possible(chunk, *self.bounds()) for chunk in chunks]
        if chunks:
            self._raw.append(chunks)
            self.waiting += sum(chunk.records.nbytes for chunk in chunks)

    def _possible(self, chunk: Chunk, first: int, last: int) -> Chunk:
        """The chunk without records whose times lie outside the session: no instrument wrote these."""
        ticks = chunk.records["tsc"]
        if not len(ticks) or first <= int(ticks.min()) <= int(ticks.max()) <= last:
            return chunk
        right = (ticks >= first) & (ticks <= last)
        self.impossible += int(len(ticks) - right.sum())
        gaps = sorted({int(right[:gap].sum()) for gap in chunk.gaps})
        records = chunk.records[right]
        return replace(chunk, records=records, gaps=tuple(gap for gap in gaps if gap < len(records)), missing=())

    def _oldest(self) -> list[Chunk]:
        chunks = self._raw.popleft()
        self.waiting -= sum(chunk.records.nbytes for chunk in chunks)
        return chunks

    def _converted(self) -> list[pa.Table]:
        tables = []
        while self._raw:
            tables.append(self._samples.add(self._oldest()))
        return tables

    def _counted(self, table: pa.Table) -> pa.Table:
        """Count a table's records, and return the table. Rows that stand for missing records do not count."""
        self.records += table.num_rows - self._samples.gaps
        self._samples.gaps = 0
        return table

    def _live(self) -> set[tuple[int, int]]:
        return self._threads.live([(identity.pid, identity.tid) for identity in self._drain.identities()])

    def _name(self, pid: int, tid: int) -> str:
        """The name of a thread when it was last seen alive."""
        self._names[pid, tid] = self._threads.name(pid, tid) or self._names.get((pid, tid), "")
        return self._names[pid, tid]


class Bounds:
    """The first and last time at which records can have been made, in ticks, each with a second of grace: the counters
    of processors may differ."""

    def __init__(self) -> None:
        self._tsc, self._ns = sample()

    def __call__(self) -> tuple[int, int]:
        tsc, ns = sample()
        second = int((tsc - self._tsc) * 1_000_000_000 / max(ns - self._ns, 1)) if ns - self._ns > 1_000_000 else _TICKS
        return max(self._tsc - second, 0), tsc + second


def _one(tables: list[pa.Table]) -> pa.Table:
    import pyarrow as pa  # imported here, as above

    return pa.concat_tables(tables)
