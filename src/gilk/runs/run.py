# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs, as of ``gilk run``: sessions in one or several processes and in the kernel, from the first stop to the
report."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gilk import activity
from gilk.collector import without_collector
from gilk.errors import GilkError, MachineGone, StoreError
from gilk.runs.clause_request import ClauseRequest, ClauseSessions
from gilk.runs.covered import kept
from gilk.runs.draining import TICK, drain
from gilk.runs.instruments import ProcessInstruments
from gilk.runs.kept import Recorder
from gilk.runs.openings import Openings, Stopped
from gilk.runs.outcome import (
    Result,
    SessionOutcome,
    added,
    numbers,
    outcome_of,
    refused_by_point,
    remarks_on_doubts,
    restored_of,
)
from gilk.runs.presence import Presence, let_go
from gilk.runs.progress import Progress, SumTell, in_silence
from gilk.runs.sample_columns import kinds_of, schema_of
from gilk.runs.spent import CostedPart, part_of, spent
from gilk.session.base import BaseSession, Probe
from gilk.session.broker.executing import in_one_program
from gilk.session.inlined import NamedFunctions
from gilk.session.probing import PreparedSession, ProbingSession
from gilk.session.request import Request, Wanted, expand
from gilk.targets.process import Process
from gilk.trace.about import About, Tally
from gilk.trace.calls import CallTable, pair
from gilk.trace.clock import Clock, calibrate, realtime_offset
from gilk.trace.spent import HitCosts, RecordTally, Spent
from gilk.trace.stacks import added as added_stacks
from gilk.trace.store import Writer
from gilk.trace.traced import TraceDescription
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.runs.elsewhere import Elsewhere
    from gilk.targets.kernel.target import KernelTarget

KERNEL_RING = 4 << 20  # bytes of each CPU's buffer of a record class
_NOTED_AFTER, _NOTED_GROWTH = 1.0, 1.5  # counts are noted after so many seconds, and then this many times as late
_LATE, _LATE_PER_POINT = 60.0, 0.01  # seconds that a machine which may hang gets to take everything out


@dataclass
class Run:
    """Sessions at work, one per process, and one in the kernel if it has points."""

    processes: list[Process]
    requests: list[Request]
    output: Path | None = None
    command: tuple[str, ...] = ()
    kernel: KernelTarget | None = None
    elsewhere: Elsewhere | None = None  # the machine of the kernel and the command, if it is another one
    flight: bool = False  # whether full buffers in the kernel keep the newest records, not the oldest
    clauses: Sequence[ClauseRequest] = ()  # the requests that `clause_sessions` carries out
    clause_sessions: ClauseSessions | None = None
    sessions: list[BaseSession] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    partial: bool = False
    lost: MachineGone | None = None  # why the other machine does not answer any more
    _presence: Presence = field(default_factory=Presence)
    _kept: Recorder = field(default_factory=Recorder)
    waits: bool = False  # whether points that mean nothing yet may be in libraries that are opened later
    _openings: Openings = field(default_factory=Openings)
    costs: HitCosts | None = None  # of the instruments; with them the result has what the probes have taken
    tally: RecordTally = field(default_factory=RecordTally)
    tells_of_unseen: bool = True  # whether to name programs that processes start and that have no instruments
    asked: NamedFunctions = field(default_factory=NamedFunctions)
    _zero: int = 0  # time 0 of all samples, in ns of CLOCK_MONOTONIC of this machine
    _clock: Clock | None = None
    _began: float = 0.0
    _drained: float = 0.0  # when records were last taken
    _lasted: int = 0  # the duration of the run, once everything is out, in ns
    _noted: float = 0.0  # the duration of the run when its counts were last noted in the file, in s

    @property
    def _sees_all(self) -> str:
        """The command that instruments programs which processes start, too."""
        return "gilk run --follow"

    def begin(self, planning: AbstractContextManager[None] | None = None) -> None:
        """Put everything in, and let launched programs run. Raises GilkError; then nothing is left behind.

        ``planning``: a context that is entered while there is nothing to be reported.
        """
        try:
            with planning or nullcontext(), without_collector():
                in_one_program(self._may_be_stopped, self._insert, self._withdraw)
            self._began = time.monotonic()
            self._open()
        except BaseException:
            self.abort()
            raise
        if self.tells_of_unseen:
            self._presence.watch_for_programs(self.processes)
        self._about_to_release()
        for process in self.processes:
            process.release()
        self._start_command()

    @property
    def _may_be_stopped(self) -> Sequence[Process]:
        """The processes that are stopped, and instrumented again, if they execute another program while they are
        instrumented."""
        return self.processes if self.kernel is None else ()

    def _withdraw(self) -> None:
        """Undo what `_insert` has done, so that it can be called again."""
        self._openings.abort()
        for session in self.sessions:
            with contextlib.suppress(GilkError):
                session.close()
        self.sessions, self._openings, self.asked = [], Openings(), NamedFunctions()
        self._presence, self._zero, self._clock = Presence(), 0, None

    def _start_command(self) -> None:
        if self.elsewhere is not None and self.command:
            self.elsewhere.start(self.command)

    def _about_to_release(self) -> None:
        """Called just before launched programs, which have been held so far, go on."""

    def _insert(self) -> None:
        """Put all probes in, the kernel's last, so that they see little of gilk's own work."""
        instruments = self._instruments
        for process in self.processes if instruments.requests or self.clauses else ():
            with self._unless_ended(process):
                instruments.put_in(process)
        if self.kernel is not None:
            wanted = list(expand(self.kernel, [request for request in self.requests if request.of_kernel]))
            points = max(len(wanted), 1)
            from gilk.session.kernel_session import KernelSession  # imported here: most runs do not need it

            self.put(KernelSession(self.kernel, points, KERNEL_RING, self.flight), wanted)
        kinds = [row.kind for session in self.sessions for row in session.rows]
        if self._openings:
            kinds += kinds_of(self.requests, self.clauses)
        self._kept.schema = schema_of(kinds)

    @property
    def _instruments(self) -> ProcessInstruments:
        """The run's instruments for processes."""
        requests = [request for request in self.requests if not request.of_kernel]
        return ProcessInstruments(
            self, requests, self.clauses, self.clause_sessions, self.asked, self._openings, self.waits
        )

    def take_in_later(self, process: Process, session: BaseSession) -> None:
        """Add a session for libraries that a process has opened."""
        self._openings.note(process, session)
        self.take_in(session)

    def _note_stopped(self, stopped: Stopped) -> None:
        self.notes += stopped.notes
        self.partial |= stopped.partial

    def _unless_ended(self, process: Process) -> AbstractContextManager[None]:
        """A context that ignores the end of a process, if it is one of several and not the last."""
        return self._presence.unless_ended(process, self.processes, self.notes)

    def put(self, session: ProbingSession, wanted: list[Wanted]) -> tuple[Probe, ...]:
        """Add a session, and put in its probes. Raises GilkError."""
        self.take_in(session)
        probes = session.insert_wanted(wanted)
        self._zero = self._zero or session.began
        return probes

    def put_clauses(self, session: PreparedSession) -> None:
        """Add a session for clauses, and put in its probes. Raises GilkError."""
        self.take_in(session)
        session.begin()
        self._zero = self._zero or session.began

    def take_in(self, session: BaseSession) -> None:
        """Add a session, on the time line of the first one."""
        if self.sessions:
            self._zero = self._zero or self.sessions[0].began
        if self._clock is not None or self.sessions:
            session.align(self._zero, self.clock)
        self.sessions.append(session)

    def _open(self) -> None:
        if self.output is None:
            return
        try:
            self._kept.writer = Writer(self.output, self._kept.schema, self._about())
        except OSError as error:
            raise StoreError("cannot-write", f"{self.output}: {error.strerror}") from None

    def _about(self) -> About:
        rows = tuple(row for session in self.sessions for row in session.rows)
        pids = tuple(p.pid for p in self.processes)
        images = tuple(dict.fromkeys(image for session in self.sessions for image in session.images))
        return About(
            socket.gethostname(), self.command, pids, self._zero, realtime_offset(), self.clock, rows, images=images
        )

    @property
    def clock(self) -> Clock:
        """The clock of all samples: that of the first session, unless a library is opened before there is any."""
        if self._clock is None:
            self._clock = self.sessions[0].clock if self.sessions else calibrate()
        return self._clock

    def wait(self, seconds: float | None, stop: Callable[[], bool], show: Callable[[Progress], None]) -> None:
        """Drain until every process has ended, ``seconds`` are over, or ``stop`` returns True; or until the other
        machine falls silent: ``lost`` then has the reason."""
        try:
            self._wait(seconds, stop, show)
        except MachineGone as error:
            self._lose(error)

    def _wait(self, seconds: float | None, stop: Callable[[], bool], show: Callable[[Progress], None]) -> None:
        looked = 0.0
        while not stop() and not self._over():
            now = time.monotonic()
            if seconds is not None and now - self._began >= seconds:
                return
            self._rest(self._drain())
            if now - looked >= TICK:
                looked = now
                self._look()
                show(self.progress())

    def _checkpoint(self) -> None:
        """Note the counts in the file, for its readers if this process is killed: after a second, and then ever less
        often, since there may be 100,000 counts.
        """
        seconds = self._drained - self._began
        if self._kept.writer is None or self.kernel is not None or seconds < _NOTED_AFTER + _NOTED_GROWTH * self._noted:
            return
        self._noted = seconds
        with contextlib.suppress(StoreError, OSError):  # the next records will say so
            self._kept.writer.checkpoint(Tally(self.counts(), duration=int(seconds * 1e9), trace=self._traced()))

    def _rest(self, seconds: float) -> None:
        """Wait for ``seconds``, or until there is something to do."""
        self._openings.rest(seconds)

    def _lose(self, error: MachineGone) -> None:
        """Note that the machine is lost, and go on with the records that have come."""
        if self.lost is None:
            self.lost, self.partial = error, True
            self.notes.append(f"{error.message} ({error.slug}); the records until then are here")

    def _hurry(self) -> None:
        """Bound the wait for a machine whose command has not ended: it may hang."""
        if self.elsewhere is not None and self.command and self.elsewhere.status is None:
            points = sum(len(session.rows) for session in self.sessions)
            self.elsewhere.link.patience = _LATE + _LATE_PER_POINT * points

    def _over(self) -> bool:
        """Whether every watched process has ended, or the command on the other machine."""
        if self.elsewhere is not None and self.command:
            return self.elsewhere.status is not None
        return self._presence.have_ended(self.processes)

    @property
    def has_moved(self) -> bool:
        """Whether the run is over, and one of its processes executes another program, where no probes are."""
        return self._presence.have_ended(self.processes) and bool(self._presence.moved)

    def _drain(self) -> float:
        """Take all records; returns how many seconds to wait until the next time."""
        self._drained = time.monotonic()
        return drain(self.sessions, self._keep)

    def _look(self) -> None:
        """Notice processes that have ended or executed another program, and programs that they have started."""
        remarks = self._presence.look(self.processes)
        self.partial |= bool(remarks)
        self.notes += remarks
        self._checkpoint()

    def progress(self) -> Progress:
        """The progress of the run until now."""
        records = sum(session.records for session in self.sessions)
        hits = sum(int(session.drain.counts().sum()) for session in self.sessions)
        drops = sum(session.drain.drops() for session in self.sessions)
        return Progress(time.monotonic() - self._began, hits, records, drops)

    def spent(self) -> Spent | None:
        """The time that the probes have taken until now; None if the costs of instruments are not known."""
        if self.costs is None:
            return None
        seconds = self._lasted / 1e9 or time.monotonic() - self._began
        return spent(self._costed(), self.tally, self.costs, seconds)

    def _costed(self) -> list[CostedPart]:
        """The probes and counts of all sessions, also of those that are over."""
        return [part_of(session) for session in self.sessions]

    def _keep(self, table: pa.Table) -> None:
        if self.costs is not None:
            self.tally.add(table)
        trouble = self._kept.add(table)
        if trouble:
            self.partial = True
            self.notes.append(trouble)

    def finish(self) -> Result:
        """Take everything out, and sum up; returns the result. Errors become notes."""
        self.take_out()
        return self.sum_up()

    def take_out(self) -> bool | None:
        """Take everything out, and leave it to `sum_up` to read the last records. Errors become notes.

        Returns whether all code is what it was, None if that is not known yet.
        """
        self._lasted = int((time.monotonic() - self._began) * 1e9)
        self.notes += [f"{remark}; {self._sees_all} sees such" for remark in self._presence.unseen_programs()]
        self._hurry()
        for session in self.sessions:
            with self._noting(session):
                session.end()
        self._note_stopped(self._openings.stop_all())  # until now, nothing could be opened without instruments
        return self._restored(lambda _reason: None)

    def sum_up(self, tell: SumTell = in_silence) -> Result:
        """Read the last records, and close the file; returns the result. Call it once, after `take_out`.

        That takes time if there are many records.
        """
        for session in self.sessions:
            with self._noting(session):
                self._read_rest(session, tell)
            self.notes += session.notes
        self._leave()
        if self._kept.reservation:
            self.notes.append(self._kept.reservation)
        result = self._result()
        tell("closing the file", False)
        self._close_file(result, self._lasted)
        let_go(self.processes)
        tell("matching calls", True)
        result.calls = self._calls()
        return result

    def _read_rest(self, session: BaseSession, tell: SumTell) -> None:
        """Read the last records of a session that has ended. Raises GilkError."""
        try:
            while session.waiting:
                tell(f"reading the last records, {session.waiting >> 20} MB", False)
                self._keep(session.convert())
            self._keep(session.close())
        except MachineGone as error:
            from gilk.session.kernel_session import KernelSession  # imported here, as above

            self._lose(error)
            if isinstance(session, KernelSession):
                self._keep(session.salvage())

    @contextlib.contextmanager
    def _noting(self, session: BaseSession) -> Iterator[None]:
        """A context in which errors become notes."""
        try:
            yield
        except MachineGone as error:
            self._lose(error)
        except GilkError as error:
            self.partial = True
            self.notes.append(f"{session.code.who}: {error}")

    def _restored(self, note: Callable[[str], object]) -> bool | None:
        return None if self.lost else restored_of(self._outcomes(), note)

    def _outcomes(self) -> list[SessionOutcome]:
        return [outcome_of(session) for session in self.sessions]

    def counts(self) -> dict[str, int]:
        """The hits until now, by name of the point."""
        return added([session.counts() for session in self.sessions])

    def _result(self) -> Result:
        parts = self._outcomes()
        counts, tactics = added([part.counts for part in parts]), added([part.tactics for part in parts])
        refusals = added([part.refusals for part in parts])
        restored = self._restored(self.notes.append)
        told = self._numbers(tactics, refusals)
        doubts = remarks_on_doubts(parts)
        self.partial |= bool(doubts)
        self.notes += doubts
        self.notes += self.asked.stripped()
        refused = [each for part in parts for each in part.refused_points]
        return Result(
            counts, None, told, tactics, refusals, restored, self.partial, self.notes, "", refused,
            self.asked.inlined(), stacks=added_stacks(stack for part in parts for stack in part.stacks),
            spent=self.spent(),
        )  # fmt: skip

    def _numbers(self, tactics: dict[str, int], refusals: dict[str, int]) -> dict[str, Any]:
        return numbers(self._outcomes(), tactics, refusals)

    def _calls(self) -> CallTable | None:
        if not any(row.kind in ("time-entry", "time-head") for session in self.sessions for row in session.rows):
            return None
        table = self._kept.table()
        return None if table is None else pair(table)

    def _close_file(self, result: Result, duration: int) -> None:
        if self._kept.writer is None:
            return
        activity.tell(f"all is taken out; writing {result.numbers['records']} records")
        tally = Tally(
            result.counts, **result.lost, duration=duration, partial=self.partial, report=self._report(),
            trace=self._traced(), refused=refused_by_point(result), blocks=kept(self.asked, result.counts),
        )  # fmt: skip
        result.file, trouble = self._kept.close(tally, self._described())
        if trouble:
            result.partial = True
            result.notes.append(trouble)

    def _described(self) -> About | None:
        """The file's description at the end; None if it is what it was at the beginning."""
        return self._about()

    def _report(self) -> dict[str, Any]:
        """Further members of the report in the file."""
        return {}

    def _traced(self) -> TraceDescription | None:
        """The trace's description of itself; None for a run that is no trace."""
        return None

    def _leave(self) -> None:
        if self.kernel is not None:
            self.kernel.link.close()
        if self.elsewhere is not None:
            self.elsewhere.close()

    def abort(self) -> None:
        """Undo whatever begin() has done, without a report. A launched program that has not begun is killed."""
        for process in self.processes:
            process.kill_unstarted()
        self._openings.abort()
        for session in self.sessions:
            with contextlib.suppress(GilkError):
                session.close()
        self._leave()
        let_go(self.processes)
        if self._kept.writer is not None:
            self._kept.writer.abandon()
