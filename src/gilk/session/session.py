# SPDX-License-Identifier: LGPL-2.1-or-later
"""A set of probes in one process, and what they bring back."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from gilk.build.instrument import Compiled, compile_instrument
from gilk.errors import GilkError, TargetError, UsageError
from gilk.session import request
from gilk.session.ledger import Entry, Ledger, Result
from gilk.session.places import Place
from gilk.session.request import Builtin, CFunction, Request, Wanted
from gilk.session.signals import Signals
from gilk.session.stream import ALL_CLASSES, Stream
from gilk.splice.instrument import Arguments, Count, Instrument, Stamp
from gilk.splice.plan import Refusal, Tactic, Want
from gilk.splice.planner import Ground
from gilk.splice.points import parse as parse_spec
from gilk.target.process import Process
from gilk.target.workspace import Workspace
from gilk.trace.clock import calibrate
from gilk.trace.drain import Drain
from gilk.trace.layout import PAGE, Geometry
from gilk.trace.probes import ProbeRow, counts_by_point

_MOST_POINTS = 1 << 20
Points = str | Place | Iterable[Place]


@dataclass(frozen=True)
class Probe:
    """One instrument at one point. ``tactic`` is None when it was refused, for the reason in ``refusal``."""

    number: int
    row: ProbeRow
    tactic: Tactic | None = None
    refusal: Refusal | None = None


@dataclass
class Totals:
    """Points asked for, seconds that changing the code took, and seconds of those that the threads stood still."""

    asked: int = 0
    activation: float = 0.0
    still: float = 0.0


class Session:
    """Use as a context manager; at its end all probes are gone from the target.

    ``points`` bounds how many counting probes there can be in all, ``threads``
    how many threads have buffers at one time, ``ring`` the bytes of a thread's
    buffer per record class.
    """

    def __init__(self, process: Process, points: int = 1 << 18, threads: int = 1024, ring: int = 4 << 20) -> None:
        geometry = Geometry.plan(min(points, _MOST_POINTS), set(ALL_CLASSES), threads, ring)
        rings = tuple((ring.offset, ring.size) for ring in geometry.rings)
        self.process = process
        self._workspace = Workspace(process, geometry.size, PAGE, rings)
        geometry.initialise(memoryview(self._workspace.data))
        self._ledger = Ledger(self._workspace, process.keeper)
        self._keeps_everything = False
        self._signals = Signals(process, self._workspace)
        self._drain = Drain(geometry, self._workspace.data)
        self.clock = calibrate()
        self._stream = Stream(self._drain, self.clock)
        self._capacity = geometry.counters
        self._probes: dict[int, Probe] = {}
        self._everything: list[ProbeRow] = []
        self._compiled: dict[CFunction, Compiled] = {}
        self._tables: list[pa.Table] = []
        self.totals = Totals()
        self.restored: bool | None = None
        self.closed = False

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Probes.

    def insert(self, points: Points, instrument: str | CFunction | Builtin) -> tuple[Probe, ...]:
        """Put one instrument at points: ``insert("main:entry", "count")``, or places (session/places.py).

        All is done in one stop of the target. Raises UsageError, CompileError, TargetError; then nothing has changed.
        """
        chosen = request.instrument(instrument) if isinstance(instrument, str) else instrument
        if isinstance(points, str):
            return self.insert_all([Request(parse_spec(points), chosen)])
        places = [points] if isinstance(points, Place) else list(points)
        return self.insert_wanted([w for place in places for w in place.wanted(chosen)])

    def insert_all(self, requests: Iterable[Request]) -> tuple[Probe, ...]:
        return self.insert_wanted(list(request.expand(self.process, requests)))

    def insert_wanted(self, wanted: list[Wanted]) -> tuple[Probe, ...]:
        first = len(self._everything)
        rows = [self._row(first + n, w) for n, w in enumerate(wanted)]
        if first + len(rows) > self._capacity:
            raise UsageError(
                "too-many-points", f"more than {self._capacity} points", "ask for more with Session(points=...)"
            )
        wants = [
            self._want(row_number, w, row)
            for row_number, w, row in zip(range(first, first + len(rows)), wanted, rows, strict=True)
        ]
        self._everything += rows
        result = self._add(wants + self._handlers())
        start = time.monotonic_ns() - int(1e9 * result.outcome.total)
        self._tables.append(self._stream.know(self._everything, start))
        self._note(result, len(rows))
        return self._outcomes(result, range(first, first + len(rows)))

    def _add(self, wants: list[tuple[Entry, Want]]) -> Result:
        result = self._ledger.add(wants)
        unbalanced = self._signals.unbalanced(result)
        if unbalanced:
            self._ledger.remove(unbalanced)
        return result

    def _handlers(self) -> list[tuple[Entry, Want]]:
        """What new signal handlers need; from the first on, the runtime is told what patches stand for."""
        wants = self._signals.wants(self._ledger.entry) if self._signals.changed() else []
        if wants and self._signals.faults() and not self._keeps_everything:
            self._keeps_everything = True
            self._workspace.save_everything()
            self._ledger.renew()
        if wants:
            self._ledger.before_change = lambda: self._workspace.show_places(self._ledger.batches)
        return wants

    def remove(self, probes: Iterable[Probe]) -> None:
        """Take probes out again; their counts stay."""
        numbers = [probe.number for probe in probes if probe.number in self._probes]
        for number in numbers:
            del self._probes[number]
        if numbers:
            self._outcomes(self._ledger.remove(numbers), range(0))

    def _row(self, number: int, wanted: Wanted) -> ProbeRow:
        counts = wanted.instrument == Builtin.COUNT
        point = wanted.point
        return ProbeRow(
            0 if counts else number + 1, point.label, point.function, point.image, wanted.kind, number if counts else -1
        )

    def _want(self, number: int, wanted: Wanted, row: ProbeRow) -> tuple[Entry, Want]:
        ground = self._workspace.ground(wanted.loaded, self.process.analysis(wanted.loaded))
        entry = self._ledger.entry(ground, wanted.function)
        made = self._instrument(ground, wanted.instrument, number)
        return entry, Want(wanted.point.address, wanted.point.after, made, number)

    def _instrument(self, ground: Ground, chosen: Builtin | CFunction, number: int) -> Instrument:
        match chosen:
            case Builtin.COUNT:
                return Count(number)
            case Builtin.STAMP | Builtin.TIME:
                return Stamp(number + 1)
            case Builtin.ARGS:
                return Arguments(number + 1)
            case Builtin.REGS:
                return self._workspace.registers(ground, number + 1)
            case CFunction():
                return self._workspace.call(ground, self._compile(chosen), number + 1)

    def _compile(self, chosen: CFunction) -> Compiled:
        if chosen not in self._compiled:
            self._compiled[chosen] = compile_instrument(chosen.source, chosen.function)
        return self._compiled[chosen]

    def _outcomes(self, result: Result, numbers: range) -> tuple[Probe, ...]:
        tactics = {key: t for plan in result.plans for key, t in plan.tactics.items()}
        refusals = {key: r for plan in result.plans for key, r in plan.refusals.items()}
        for number in {*numbers, *(tactics.keys() | refusals.keys()) & self._probes.keys()}:
            self._probes[number] = Probe(number, self._everything[number], tactics.get(number), refusals.get(number))
        return tuple(self._probes[number] for number in numbers)

    def _note(self, result: Result, asked: int) -> None:
        self.totals.asked += asked
        self.totals.activation += result.outcome.total
        self.totals.still += result.outcome.seconds

    def tactics(self) -> dict[str, int]:
        """How many of the probes there are were put in by each tactic."""
        return dict(Counter(str(p.tactic) for p in self._probes.values() if p.tactic is not None))

    def refusals(self) -> dict[str, int]:
        return dict(Counter(str(p.refusal) for p in self._probes.values() if p.refusal is not None))

    @property
    def probes(self) -> tuple[Probe, ...]:
        return tuple(self._probes.values())

    @property
    def rows(self) -> tuple[ProbeRow, ...]:
        """Every probe there is or has been."""
        return tuple(self._everything)

    # What they bring back.

    def poll(self) -> pa.Table:
        """Samples that have arrived since the last call; see trace.samples for the columns."""
        self._look_after_handlers()
        return self._gathered(self._stream.poll())

    def take(self) -> float:
        """Empty the buffers, for ``convert`` to make samples of later; how full, of 1, the fullest was."""
        self._look_after_handlers()
        return self._stream.take()

    def convert(self) -> pa.Table:
        """Samples of one ``take``, the oldest that waits."""
        return self._gathered(self._stream.convert())

    @property
    def waiting(self) -> int:
        """Bytes that were taken and not converted."""
        return self._stream.waiting

    def _look_after_handlers(self) -> None:
        if self._probes and not self.closed:
            with contextlib.suppress(TargetError):  # the process may have ended: what it left is read all the same
                wants = self._handlers()
                if wants:
                    self._add(wants)

    def _gathered(self, latest: pa.Table) -> pa.Table:
        """With what was set aside when probes were added; older tables may lack columns."""
        tables, self._tables = [*self._tables, latest], []
        return pa.concat_tables(tables, promote_options="default").select(self.schema.names)

    @property
    def start(self) -> int:
        """Time 0 of the samples, in ns of CLOCK_MONOTONIC."""
        return self._stream.start

    @property
    def schema(self) -> pa.Schema:
        return self._stream.schema

    def counts(self) -> dict[str, int]:
        """Hits of every counting probe, by the name of its point."""
        return counts_by_point(self._everything, self._drain.counts().tolist())

    @property
    def drain(self) -> Drain:
        """The buffers: drops, lost and nested hits, corrupt rings."""
        return self._drain

    @property
    def records(self) -> int:
        return self._stream.records

    def close(self) -> pa.Table:
        """Take everything out of the target; the samples that were left. ``restored`` says whether all is as it was."""
        if self.closed:
            return self._stream.schema.empty_table()
        self.closed = True
        try:
            self.restored = self.process.keeper.close()
        except GilkError as error:
            if error.slug != "keeper-gone":
                raise
        return self._gathered(self._stream.finish())
