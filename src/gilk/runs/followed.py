# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs with ``gilk run --follow``: instruments at points of all programs that the processes execute."""

from __future__ import annotations

import time

from gilk.errors import UsageError
from gilk.runs.instruments import RING
from gilk.runs.opened import expanded, raise_unless_absent
from gilk.runs.openings import AnyPoint
from gilk.runs.outcome import Result
from gilk.runs.sample_columns import kinds_of, schema_of
from gilk.runs.tree_run import FollowedProgram, TreeRun
from gilk.session.base import BaseSession, Probe
from gilk.session.broker.client_session import ClientSession
from gilk.session.probing import ProbingSession
from gilk.session.request import Wanted, without_instances
from gilk.targets.process import Process
from gilk.values import dataclass


@dataclass
class FollowedRun(TreeRun):
    """A run that follows. Programs without any of the points have no session; the report says so of each."""

    _why_none: UsageError | None = None  # why the first program has none of the points

    def _insert(self) -> None:
        self._zero = time.monotonic_ns()
        self._kept.schema = schema_of(kinds_of(self.requests, self.clauses))
        meant = [(process, self._wanted(process)) for process in self.processes]
        self._follow_all()
        for process, wanted in meant:
            with self._unless_ended(process):
                self._instrument(self._programs[process.pid, 0], process, wanted)

    def _withdraw(self) -> None:
        super()._withdraw()
        self._why_none = None

    def _make_ready(self, program: FollowedProgram, process: Process) -> None:
        self._instrument(program, process, self._wanted(process))

    def _wanted(self, process: Process) -> list[Wanted]:
        """The wanted probes that a program has. Raises GilkError."""
        return expanded(process, self.requests, self._note_missing)

    def _instrument(self, program: FollowedProgram, process: Process, wanted: list[Wanted]) -> None:
        known = process.loaded()
        if wanted:
            self.asked.note(process, without_instances(self.requests), ((w.loaded, w.function) for w in wanted))
            session = ClientSession(process, len(wanted), ring=RING, clock=self.clock)
            program.sessions.append(session)
            self.put(session, wanted)
        made = self._instruments.with_clauses(process, self._note_missing_clause)
        if made is not None:
            program.sessions.append(made)
            self.put_clauses(made)
        launched = process.unstarted or process not in self.processes
        if self._instruments.watch_libraries(process, known, launched) is not None:
            for one in program.sessions:
                self._openings.note(process, one)

    def _note_missing(self, _what: AnyPoint, error: UsageError) -> None:
        self._why_none = self._why_none or error

    def _note_missing_clause(self, error: UsageError) -> None:
        raise_unless_absent(error)
        self._note_missing(error.message, error)

    def take_in_later(self, process: Process, session: BaseSession) -> None:
        super().take_in_later(process, session)
        for program in self._programs.values():
            if program.process is process:
                program.sessions.append(session)

    def put(self, session: ProbingSession, wanted: list[Wanted]) -> tuple[Probe, ...]:
        self.take_in(session)
        return session.insert_wanted(wanted)

    def take_in(self, session: BaseSession) -> None:
        session.align(self._zero, self.clock)
        self.sessions.append(session)

    def _result(self) -> Result:
        result = super()._result()
        if not any(one.points for one in result.programs) and self._why_none is not None:
            result.partial = True
            result.notes.append(f"no program that was followed has any of the points; of the first: {self._why_none}")
        return result
