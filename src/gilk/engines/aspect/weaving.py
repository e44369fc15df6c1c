# SPDX-License-Identifier: LGPL-2.1-or-later
"""A file of aspects in running processes: planned everywhere before anything changes, and in everywhere or nowhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from gilk.engines.aspect.access_shadows import AccessShadows, access_advice
from gilk.engines.aspect.members import member_parts
from gilk.engines.aspect.possible import check_possible
from gilk.engines.aspect.reports import AspectReport, ReportReader
from gilk.engines.aspect.shadows import Shadow, Shadows
from gilk.engines.aspect.state import CodeRanges, WovenLayout, WovenState
from gilk.errors import GilkError, UsageError
from gilk.lang.aspect.checked import CheckedFile, CheckedTable
from gilk.lang.aspect.code.accessing import MetAccess, woven_access
from gilk.lang.aspect.code.meeting import numbered
from gilk.lang.aspect.code.unit import WOVEN, woven
from gilk.lang.aspect.lower import automata
from gilk.lang.aspect.woven import DryShadow, TableRow, WovenElement, WovenReport, WovenSummary, WovenTable
from gilk.session.advised_session import AdvisedSession
from gilk.session.advising import Advice, AdvisedAccess, check_process, wanted
from gilk.session.base import Probe
from gilk.targets.process import Process

_RING = 1 << 18  # bytes of reports that a thread may have waiting
_TICK = 0.05  # seconds between looks


class WovenProcess:
    """One process with what is woven into it."""

    def __init__(self, process: Process, file: CheckedFile, groups: Sequence[str], processes: int) -> None:
        """Raises UsageError `cannot-weave`, `no-such-function`, `no-such-image`, `ambiguous-function`, TargetError."""
        self.process = process
        self._file = file
        self._aspects = numbered(file, automata(file))
        check_possible(file, self._aspects, processes)
        ranges = CodeRanges()
        calls = Shadows(process, file, groups, ranges)
        self.shadows = calls.found(self._aspects)
        parts = member_parts(file)
        self.accesses = AccessShadows(process, file, groups, calls, parts).found(self._aspects)
        self._layout = WovenLayout(self._aspects, file.tables, ranges)
        self._session: AdvisedSession | None = None
        self.probes: tuple[Probe, ...] = ()

    def advice(self) -> list[tuple[Shadow, Advice]]:
        return [(shadow, self._advice(shadow)) for shadow in self.shadows]

    def _advice(self, shadow: Shadow) -> Advice:
        made = woven(self._file, shadow.met, self._layout.tables)
        return Advice(made.text, WOVEN, made.signature, made.when, Path(self._file.source.name), made.declarations)

    def accessed(self) -> list[AdvisedAccess]:
        made: dict[int, Advice] = {}
        return [
            access_advice(self.process, one, lambda met: made.get(id(met)) or made.setdefault(id(met), self._on_access(met)))
            for one in self.accesses
        ]

    def _on_access(self, met: MetAccess) -> Advice:
        text = woven_access(self._file, met, self._layout.tables)
        return Advice(text.text, WOVEN, text.signature, text.when, Path(self._file.source.name), text.declarations)

    def dry(self) -> Iterator[DryShadow]:
        """Its functions. Whether their points can be had shows when they are planned; the process is not touched.

        Raises CompileError.
        """
        for shadow, advice in self.advice():
            met = shadow.met
            elements = tuple(WovenElement(one.aspect.label, one.number + 1, str(one.moment)) for one in met.elements)
            why = self._refusal(shadow, advice)
            yield DryShadow(self.process.pid, met.image, met.function, elements, why)

    def _refusal(self, shadow: Shadow, advice: Advice) -> str:
        try:
            check_process(self.process)
            list(wanted(self.process, shadow.view.entry, advice, advice.compiled().proceeds))
        except UsageError as error:
            return f"{error.message} ({error.slug})"
        return ""

    @property
    def over(self) -> bool:
        """Whether it has ended, or executes another program."""
        process = self.process
        return not process.alive or (process.launched and process.wait() is not None) or not process.keeper.is_present()

    def weave(self, threads: int = 1024) -> None:
        """Everything in, in one change, and switched on. Raises UsageError, CompileError, TargetError; then the process
        is as it was."""
        self._session = AdvisedSession(self.process, threads=threads, ring=_RING, shared=self._layout.size)
        self._state = WovenState(self._layout, self._aspects, self._session.shared, self._session.clock)
        self._reports = ReportReader(self._session.stored)
        pieces = [(shadow.view.entry, advice) for shadow, advice in self.advice()]
        self.probes = self._session.advise_all(pieces, self.accessed())

    def switch(self, on: bool) -> None:
        """All aspects, from their next match on."""
        self._state.switch(on)

    def reports(self, final: bool = False) -> list[WovenReport]:
        """The reports since the last call."""
        if self._session is None:
            return []
        return [self._told(one) for one in self._reports.reports(self._session.records_taken(final))]

    def _told(self, one: AspectReport) -> WovenReport:
        clock = self.session.clock
        known = one.aspect < len(self._aspects)
        aspect = self._aspects[one.aspect] if known else None
        elements = aspect.elements if aspect is not None else ()
        line = self._file.source.line(elements[one.element].span) if one.element < len(elements) else 0
        at = clock.ns0 + int((one.tick - clock.tsc0) / clock.ticks_per_ns)
        return WovenReport(at, one.pid, one.tid, aspect.label if aspect is not None else "", line, one.text)

    def summary(self) -> WovenSummary:
        """Raises TargetError if nothing was woven."""
        session = self.session
        drain = session.drain
        return WovenSummary(
            self.process.pid, len(self.shadows), session.restored, drain.nested(), drain.drops(), drain.lost(),
            tuple(session.notes), self._state.counts(),
        )  # fmt: skip

    def table(self, name: str) -> tuple[list[TableRow], int]:
        """The rows, and what was not added for want of room."""
        return list(self._state.rows(name)), self._state.lost(name)

    @property
    def session(self) -> AdvisedSession:
        assert self._session is not None, "nothing is woven"
        return self._session

    def unweave(self) -> None:
        """Everything out, and switched off before: threads that have little to do in advice are soon outside of it.

        Raises TargetError.
        """
        if self._session is not None:
            self._state.switch(False)
            self._session.end()


class Weaving:
    """As a context manager, everything is out at its end."""

    def __init__(self, file: CheckedFile, members: Mapping[int, Sequence[str]], held: Sequence[Process]) -> None:
        """``members``: the groups of each process of ``held``. Raises as WovenProcess does."""
        self.file = file
        self.processes = tuple(WovenProcess(one, file, members[one.pid], len(held)) for one in held)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unweave()

    def weave(self) -> None:
        """Into all, switched off, and then on in all; into none if one refuses."""
        try:
            for one in self.processes:
                one.weave()
        except BaseException:
            self.unweave()
            raise
        for one in self.processes:
            one.switch(True)

    def reports(self, final: bool = False) -> Iterator[WovenReport]:
        """In order of time."""
        return iter(sorted((each for one in self.processes for each in one.reports(final)), key=lambda each: each.at))

    def wait(self, seconds: float | None, stop: Callable[[], bool], tell: Callable[[WovenReport], None]) -> None:
        """Tell reports as they come, until every process has gone, the time is over, or ``stop`` says so."""
        until = None if seconds is None else time.monotonic() + seconds
        while not stop() and not all(one.over for one in self.processes):
            for report in self.reports():
                tell(report)
            if until is not None and time.monotonic() >= until:
                return
            time.sleep(_TICK)

    def unweave(self) -> None:
        """Out of all, also where one of them refuses. Raises the first GilkError."""
        wrong: list[GilkError] = []
        for one in self.processes:
            try:
                one.unweave()
            except GilkError as error:
                wrong.append(error)
        if wrong:
            raise wrong[0]

    def tables(self) -> tuple[WovenTable, ...]:
        return tuple(map(self._table, self.file.tables))

    def _table(self, table: CheckedTable) -> WovenTable:
        found: dict[bytes, TableRow] = {}
        lost = 0
        for rows, more in (one.table(table.name) for one in self.processes):
            lost += more
            for row in rows:
                old = found.get(row.key)
                found[row.key] = row if old is None else old.with_other(row)
        return WovenTable(table, tuple(sorted(found.values(), key=lambda row: row.key)), lost)
