# SPDX-License-Identifier: LGPL-2.1-or-later
"""The session for a run's requests that clauses of D carry out, beside the session of its other instruments."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gilk.engines.clauses.drain import ClauseDrain, probe_of
from gilk.engines.clauses.program import STACKS, SidedClauses, compiled
from gilk.engines.clauses.sites import points_of
from gilk.engines.dtrace.names import Names
from gilk.engines.dtrace.symbols import SymbolNames
from gilk.engines.dtrace.tracing import Engine
from gilk.engines.dtrace.world import SymbolContext
from gilk.errors import GilkError, OutOfMemory, UsageError
from gilk.lang.d.options import Options
from gilk.lang.data import Kind
from gilk.runs.clause_request import ClauseRequest
from gilk.session.base import Probe
from gilk.session.broker.client import BrokerClient
from gilk.session.inlined import NamedFunctions
from gilk.session.probing import PreparedSession
from gilk.targets.base import Loaded
from gilk.targets.jit_map import JitMap
from gilk.targets.process import Process
from gilk.trace.clock import calibrate
from gilk.trace.d.values import Stack, decode
from gilk.trace.probes import ProbeRow, RefusedPoint, distinct_refusals
from gilk.trace.stacks import CountedStack, added

if TYPE_CHECKING:
    import pyarrow as pa

_DEPTH = 100  # frames
_OPTIONS = (("bufsize", "16m"), ("aggsize", "32m"), ("dynvarsize", "16m"))
_TEND_EVERY = 1.0  # seconds
_CLEAN_EVERY = 0.1


class ClauseSession(PreparedSession):
    """A session of clauses; ``begin`` puts in all probes that the requests mean."""

    def __init__(
        self, process: Process, requests: Sequence[ClauseRequest], asked: NamedFunctions, code: Process
    ) -> None:  # fmt: skip
        """Find the points, and compile the clauses. ``asked`` notes the functions. ``code``: the process, or some of
        its images, where points are looked up.

        Raises UsageError `bad-condition`, `no-such-probe`, and as request.expand; TargetError.
        """
        self.process = process
        options = Options()
        for name, value in _OPTIONS:
            options.set(name, value)
        program = compiled(requests, process.pid, _DEPTH, options, SymbolContext(process))
        self._points = points_of(code, requests, program.clauses, asked)
        self._client: BrokerClient | None = None
        try:
            self._engine = Engine(program.compiled.program, self._points.enabled, options, (process, self._join))
        except (OSError, ValueError, OutOfMemory) as error:
            self._leave()
            raise UsageError("buffers-too-large", "there is no memory for the buffers of clauses") from error
        except BaseException:
            self._leave()
            raise
        refused = [row for row, _ in self._points.refused]
        rows = sorted((*self._points.rows.values(), *refused), key=row_number)
        self._symbols = SymbolNames(process, JitMap(process.pid))
        self._names = Names(self._symbols, options)
        self._own_clock = self._engine.clock
        drain = ClauseDrain(self._engine, self._own_clock, self._points.rows, len(rows))
        super().__init__(drain, calibrate(), process.threads, len(rows))
        self._clauses = drain
        self._everything = list(rows)
        self._files |= self._points.files
        self._why: dict[str, str] = {row.point: why for row, why in self._points.refused}
        self._due = [0.0, 0.0]
        self._found: list[CountedStack] = []

    def _join(self, size: int) -> BrokerClient:
        self._client = BrokerClient(self.process, size)
        return self._client

    def _leave(self) -> None:
        if self._client is not None:
            self._client.close()

    @property
    def code(self) -> Process:
        return self.process

    def begin(self) -> tuple[Probe, ...]:
        began = time.monotonic()
        self._engine.begin()
        rows = self._points.rows
        self._why |= {rows[probe.number].point: why for probe, why in self._engine.refused}
        took = time.monotonic() - began
        self.totals.asked += len(self._everything)
        self.totals.activation += took
        self._know(took)
        for number, row in enumerate(self._everything):
            self._probes[number] = Probe(number, row, None if row.point in self._why else "clause")
        return tuple(self._probes.values())

    def lose(self, loaded: Loaded) -> None:
        """Note that an image was unmapped. Raises TargetError."""
        self._engine.lose(0, loaded)

    def regain(self, loaded: Loaded) -> int:
        """Put the probes of an unmapped image in again, after it was mapped again; returns 1 if it had any, else 0.
        Raises GilkError."""
        return int(self._engine.regain(0, loaded) is not None)

    def forget(self, loaded: Loaded) -> None:
        """Forget the probes of an unmapped image whose path is another file now."""
        self._engine.forget_image(0, loaded)

    # Outcomes.

    def refusals(self) -> dict[str, int]:
        return dict(Counter(self._why[row.point] for row in self._everything if row.point in self._why))

    def refused_points(self) -> list[RefusedPoint]:
        return distinct_refusals(
            (row.point, self._why[row.point]) for row in self._everything if row.point in self._why
        )

    def counts(self) -> dict[str, int]:
        """The hits of every counting point, by its name."""
        self._clauses.look()
        counters = self._clauses.counts().tolist()
        found: Counter[str] = Counter()
        for row in self._everything:
            if row.counter >= 0 and row.point not in self._why:
                found[row.point] += counters[row.counter]
        return dict(found)

    def stacks(self) -> list[CountedStack]:
        """The stacks that were counted, with the names of their frames."""
        return self._found if self.closed else self._named()

    def _named(self) -> list[CountedStack]:
        stacked = next((each for each in self._engine.known if each.name == STACKS), None)
        if stacked is None:
            return []
        found: list[CountedStack] = []
        lines: tuple[str, ...] = ()

        def resolve(kind: Kind, pid: int, addresses: tuple[int, ...]) -> tuple[bytes, ...]:
            nonlocal lines
            lines = tuple(self._symbols.lines(addresses))
            return self._names.resolve(kind, pid, addresses)

        for key, count in self._clauses.stacks().items():
            row = self._points.rows.get(probe_of(key))
            stack = decode(stacked.keys[1], key, resolve)
            if row is not None and isinstance(stack, Stack):
                frames = tuple(line.decode("utf-8", "replace") for line in stack.lines)
                found.append(CountedStack(row.point, frames, count, lines if any(lines) else ()))
        return added(found)

    # Duties.

    def _look_after(self) -> None:
        now = time.monotonic()
        if self.closed:
            return
        if self._engine.follow():
            self._symbols.look()
        if now >= self._due[0]:
            self._engine.tend()
            self._due[0] = now + _TEND_EVERY
        if now >= self._due[1]:
            self._engine.clean()
            self._due[1] = now + _CLEAN_EVERY

    def _restore(self) -> bool | None:
        restored: bool | None = None
        try:
            self._symbols.look()
            restored = self._engine.take_out()
        except GilkError as error:
            if error.slug not in ("keeper-gone", "no-such-process"):
                raise
        assert self._client is not None
        self.goes_on = self._client.others_go_on
        self._engine.end()
        self._found = self._named()
        self.notes += self._symbols.remarks
        self._clauses.look()
        self._clauses.counts()
        self.notes += self._engine.notes
        return restored

    def close(self) -> pa.Table:
        """Take everything out; returns the remaining samples. Losses are noted, which are known only after the last
        records."""
        ends = not self._all_read
        table = super().close()
        self.notes += self._clauses.losses() if ends else []
        return table


def session_of(
    process: Process,
    requests: Sequence[ClauseRequest],
    asked: NamedFunctions,
    missing: Callable[[UsageError], None] | None,
    code: Process,
) -> ClauseSession | None:
    """A session for the requests, or None; see ClauseSessions (runs/clause_request.py). Raises as ClauseSession."""
    there = list(requests)
    if missing is not None:
        there = [request for request in requests if _has_points(code, request, missing)]
    return ClauseSession(process, there, asked, code) if there else None


def _has_points(code: Process, request: ClauseRequest, missing: Callable[[UsageError], None]) -> bool:
    try:
        points_of(code, [request], [SidedClauses(())], NamedFunctions())
    except UsageError as error:
        missing(error)
        return False
    return True


def row_number(row: ProbeRow) -> int:
    """The index of a row among all rows."""
    return max(row.iid - 1, row.counter)
