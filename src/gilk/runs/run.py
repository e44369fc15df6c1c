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

from gilk.errors import GilkError, MachineGone, StoreError, TargetError, UsageError
from gilk.runs.clause_request import ClauseRequest, ClauseSessions
from gilk.runs.kept import Recorder
from gilk.runs.opened import LaterProbes, expanded, patterns
from gilk.runs.openings import Openings, Stopped
from gilk.runs.outcome import Result, SessionOutcome, added, numbers, outcome_of, refused_by_point, restored_of
from gilk.runs.sample_columns import kinds_of, schema_of
from gilk.session.among import among
from gilk.session.base import BaseSession, Probe
from gilk.session.broker.client_session import ClientSession
from gilk.session.broker.opened import OpenedLibraries
from gilk.session.inlined import NamedFunctions
from gilk.session.probing import PreparedSession, ProbingSession
from gilk.session.request import Request, Wanted, expand, with_hint, without_instances
from gilk.targets.base import Loaded
from gilk.targets.process import Process
from gilk.targets.program import has_let_go
from gilk.targets.unseen import Unseen
from gilk.trace.about import About, Tally
from gilk.trace.calls import CallTable, pair
from gilk.trace.clock import Clock, calibrate, realtime_offset
from gilk.trace.stacks import added as added_stacks
from gilk.trace.store import Writer
from gilk.trace.traced import TraceDescription
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.runs.elsewhere import Elsewhere
    from gilk.targets.kernel.target import KernelTarget

_TICK = 0.05  # seconds between looks at the buffers and at the processes
_CALM = 0.2  # how full a buffer may be, from 0 to 1, for there to be time to convert its records
_WAITING = 1 << 29  # bytes that may wait for conversion; beyond that, records are dropped rather than memory filled
_PRESENT_EVERY = 0.05
_WAIT = "-Z waits for libraries that are opened later"
#: Bytes of each buffer: a busy thread's records for as long as gilk may wait for a processor.
RING = 16 << 20
KERNEL_RING = 4 << 20  # bytes of each CPU's buffer of a record class
_LATE, _LATE_PER_POINT = 60.0, 0.01  # seconds that a machine which may hang gets to take everything out


@dataclass
class Progress:
    """The progress of a run, for display."""

    seconds: float = 0.0
    hits: int = 0
    records: int = 0
    drops: int = 0
    what: str = ""  # the present activity, if it changes in the course of the run


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
    _ended: set[int] = field(default_factory=set)
    _kept: Recorder = field(default_factory=Recorder)
    _unseen: list[Unseen] = field(default_factory=list)
    waits: bool = False  # whether points that mean nothing yet may be in libraries that are opened later
    _openings: Openings = field(default_factory=Openings)
    tells_of_unseen: bool = True  # whether to name programs that processes start and that have no instruments
    asked: NamedFunctions = field(default_factory=NamedFunctions)
    _zero: int = 0  # time 0 of all samples, in ns of CLOCK_MONOTONIC of this machine
    _began: float = 0.0
    _looked: float = 0.0

    @property
    def _sees_all(self) -> str:
        """The command that instruments programs which processes start, too."""
        return "gilk run --follow"

    def begin(self, planning: AbstractContextManager[None] | None = None) -> None:
        """Put everything in, and let launched programs run. Raises GilkError; then nothing is left behind.

        ``planning``: a context that is entered while there is nothing to be reported.
        """
        try:
            with planning or nullcontext():
                self._insert()
            self._began = time.monotonic()
            self._open()
        except BaseException:
            self.abort()
            raise
        self._unseen = [Unseen(process.pid) for process in self.processes if self.tells_of_unseen]
        self._about_to_release()
        for process in self.processes:
            process.release()
        self._start_command()

    def _start_command(self) -> None:
        if self.elsewhere is not None and self.command:
            self.elsewhere.start(self.command)

    def _about_to_release(self) -> None:
        """Called just before launched programs, which have been held so far, go on."""

    def _insert(self) -> None:
        """Put all probes in, the kernel's last, so that they see little of gilk's own work."""
        requests = [request for request in self.requests if not request.of_kernel]
        for process in self.processes if requests or self.clauses else ():
            with self._unless_ended(process):
                self._enter(process, requests)
        if self.kernel is not None:
            wanted = list(expand(self.kernel, [request for request in self.requests if request.of_kernel]))
            points = max(len(wanted), 1)
            from gilk.session.kernel_session import KernelSession  # imported here: most runs do not need it

            self._put(KernelSession(self.kernel, points, KERNEL_RING, self.flight), wanted)
        kinds = [row.kind for session in self.sessions for row in session.rows]
        if self._openings:
            kinds += kinds_of(self.requests, self.clauses)
        self._kept.schema = schema_of(kinds)

    def _enter(self, process: Process, requests: Sequence[Request]) -> None:
        """Put instruments into a process, while no library can be unmapped. Raises GilkError."""
        opened = self._watch_libraries(process, process.loaded(), process.unstarted, is_first=True)
        code = process if opened is None else among(process, opened.known)
        try:
            wanted = expanded(code, requests, self._openings.miss if self.waits else None)
        except UsageError as error:
            raise with_hint(error, _WAIT) if error.slug == "no-such-image" else error
        self.asked.note(process, without_instances(requests), ((w.loaded, w.function) for w in wanted))
        if requests:
            session = ClientSession(process, points=max(len(wanted), 1), ring=RING)
            self._openings.note(process, session)
            self._put(session, wanted)
        missing = self._openings.miss_clause if self.waits else None
        made = self._with_clauses(process, missing, code) if self.clauses else None
        if made is not None:
            self._openings.note(process, made)
            self._take_in(made)
            made.begin()
            self._zero = self._zero or made.began
        elif not requests:
            session = ClientSession(process, points=1)
            self._openings.note(process, session)
            self._put(session, [])

    # Libraries that are opened later.

    def _watch_libraries(
        self, process: Process, known: Sequence[Loaded], launched: bool, is_first: bool = False
    ) -> OpenedLibraries | None:
        """Watch for libraries that the process opens, if points may be in some; else None. ``is_first``: before any
        probe is in."""
        requests = [request for request in self.requests if not request.of_kernel]
        make, put_clauses = self._session_for_later, self._put_later_clauses
        probes = LaterProbes(process, requests, make, put_clauses, bool(self.clauses))
        opened = OpenedLibraries(process, patterns(requests, self.clauses), probes)
        clock = self.clock if self.sessions else calibrate()
        return opened if self._openings.begin(opened, probes, clock, known, launched, is_first) else None

    def _session_for_later(self, process: Process, points: int) -> ClientSession:
        session = ClientSession(process, points, ring=RING, clock=self.clock)
        self._take_in_later(process, session)
        return session

    def _take_in_later(self, process: Process, session: BaseSession) -> None:
        """Add a session for libraries that a process has opened."""
        self._openings.note(process, session)
        self._take_in(session)

    def _put_later_clauses(self, process: Process, code: Process) -> bool:
        made = self._with_clauses(process, lambda _: None, code) if self.clauses else None
        if made is not None:
            self._take_in_later(process, made)
            made.begin()
            self._openings.meet_clauses()
        return made is not None

    def _note_stopped(self, stopped: Stopped) -> None:
        self.notes += stopped.notes
        self.partial |= stopped.partial

    @contextlib.contextmanager
    def _unless_ended(self, process: Process) -> Iterator[None]:
        """A context that ignores the end of a process, if it is one of several and not the last."""
        try:
            yield
        except TargetError as error:
            self._ended.add(process.pid)
            if error.slug != "no-such-process" or len(self._ended) == len(self.processes):
                raise
            self.notes.append(f"process {process.pid} ended before its probes were in")

    def _put(self, session: ProbingSession, wanted: list[Wanted]) -> tuple[Probe, ...]:
        self._take_in(session)
        probes = session.insert_wanted(wanted)
        self._zero = self._zero or session.began
        return probes

    def _take_in(self, session: BaseSession) -> None:
        """Add a session, on the time line of the first one."""
        if self.sessions:
            session.align(self._zero, self.sessions[0].clock)
        self.sessions.append(session)

    def _with_clauses(
        self, process: Process, missing: Callable[[UsageError], None] | None = None, code: Process | None = None
    ) -> PreparedSession | None:  # fmt: skip
        """A session for clauses, with nothing in it yet.

        ``missing`` is called with the error of each request without a point, and None is returned if none has any; if
        it is None, such an error is raised. ``code``: a view of the process with the images where points are looked up,
        if not all. Raises GilkError.
        """
        assert self.clause_sessions is not None
        return self.clause_sessions(process, self.clauses, self.asked, missing, code or process)

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
        return About(socket.gethostname(), self.command, pids, self._zero, realtime_offset(), self.clock, rows)

    @property
    def clock(self) -> Clock:
        """The clock of all samples, once there is a session."""
        return self.sessions[0].clock

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
            if now - looked >= _TICK:
                looked = now
                self._look()
                show(self.progress())

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
        return bool(self.processes) and len(self._ended) == len(self.processes)

    def _drain(self) -> float:
        """Take all records, and convert some if there is time; returns how many seconds to wait until the next time.

        A buffer that fills up within a tick is emptied more often, as long as there is memory for its records.
        """
        fullest = max((session.take() for session in self.sessions), default=0.0)
        waiting = sum(session.waiting for session in self.sessions)
        if fullest <= _CALM or waiting > _WAITING:
            for session in self.sessions:
                self._keep(session.convert())
            return 0.0 if any(session.waiting for session in self.sessions) else _TICK
        return _TICK * _CALM / fullest / 4

    def _look(self) -> None:
        """Notice processes that have ended or executed another program, and programs that they have started."""
        for unseen in self._unseen:
            unseen.look()
        present = time.monotonic() - self._looked > _PRESENT_EVERY
        if present:
            self._looked = time.monotonic()
        for process in self.processes:
            if process.pid in self._ended:
                continue
            if not process.alive or (process.launched and process.wait() is not None):
                self._ended.add(process.pid)
            elif present and not process.keeper.is_present() and not has_let_go(process.pid):
                self._ended.add(process.pid)
                self.partial = True
                self.notes.append(f"process {process.pid} executed another program; its probes went with the old one")

    def progress(self) -> Progress:
        """The progress of the run until now."""
        records = sum(session.records for session in self.sessions)
        hits = sum(int(session.drain.counts().sum()) for session in self.sessions)
        drops = sum(session.drain.drops() for session in self.sessions)
        return Progress(time.monotonic() - self._began, hits, records, drops)

    def _keep(self, table: pa.Table) -> None:
        trouble = self._kept.add(table)
        if trouble:
            self.partial = True
            self.notes.append(trouble)

    def finish(self) -> Result:
        """Take everything out; returns the result. Errors become notes."""
        duration = int((time.monotonic() - self._began) * 1e9)
        self.notes += [f"{remark}; {self._sees_all} sees such" for one in self._unseen if (remark := one.remark)]
        self._hurry()
        for session in self.sessions:
            try:
                self._keep(session.close())
            except MachineGone as error:
                from gilk.session.kernel_session import KernelSession  # imported here, as above

                self._lose(error)
                if isinstance(session, KernelSession):
                    self._keep(session.salvage())
            except GilkError as error:
                self.partial = True
                self.notes.append(f"{session.code.who}: {error}")
            self.notes += session.notes
        self._note_stopped(self._openings.stop_all())  # until now, nothing could be opened without instruments
        self._leave()
        if self._kept.reservation:
            self.notes.append(self._kept.reservation)
        result = self._result()
        self._close_file(result, duration)
        self._close_processes()
        return result

    def _outcomes(self) -> list[SessionOutcome]:
        return [outcome_of(session) for session in self.sessions]

    def counts(self) -> dict[str, int]:
        """The hits until now, by name of the point."""
        return added([session.counts() for session in self.sessions])

    def _result(self) -> Result:
        parts = self._outcomes()
        counts, tactics = added([part.counts for part in parts]), added([part.tactics for part in parts])
        refusals = added([part.refusals for part in parts])
        restored = None if self.lost else restored_of(parts, self.notes.append)
        told = self._numbers(tactics, refusals)
        for part in parts:
            doubts = "; ".join(part.doubts)
            if doubts:
                self.partial = True
                self.notes.append(
                    f"stream-corrupt: the program wrote into gilk's own memory, so it is not known {doubts}"
                )
        self.notes += self.asked.stripped()
        refused = [each for part in parts for each in part.refused_points]
        return Result(
            counts, self._calls(), told, tactics, refusals, restored, self.partial, self.notes, "", refused,
            self.asked.inlined(), stacks=added_stacks(stack for part in parts for stack in part.stacks),
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
        tally = Tally(
            result.counts, **result.lost, duration=duration, partial=self.partial, report=self._report(),
            trace=self._traced(), refused=refused_by_point(result),
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
        self._close_processes()
        if self._kept.writer is not None:
            self._kept.writer.abandon()

    def _close_processes(self) -> None:
        """Let go of the processes. Keepers of launched ones stay: they still have to tell how their programs end."""
        for process in self.processes:
            if process.launched:
                process.files.close()
                continue
            with contextlib.suppress(GilkError):  # a session has reported the error already
                process.close()
