# SPDX-License-Identifier: LGPL-2.1-or-later
"""The instruments of a run in one process: at points and for clauses, also in libraries that it opens later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from gilk.errors import UsageError
from gilk.runs.clause_request import ClauseRequest, ClauseSessions
from gilk.runs.opened import LaterProbes, expanded, patterns
from gilk.runs.openings import Openings
from gilk.session.among import among
from gilk.session.base import BaseSession, Probe
from gilk.session.broker.client_session import ClientSession
from gilk.session.broker.opened import OpenedLibraries
from gilk.session.inlined import NamedFunctions
from gilk.session.probing import PreparedSession, ProbingSession
from gilk.session.request import Request, Wanted, with_hint, without_instances
from gilk.targets.base import Loaded
from gilk.targets.process import Process
from gilk.trace.clock import Clock
from gilk.values import dataclass

_WAIT = "-Z waits for libraries that are opened later"
#: Bytes of each buffer: a busy thread's records for as long as gilk may wait for a processor.
RING = 16 << 20


class HasSessions(Protocol):
    """The run that the sessions of instruments belong to."""

    sessions: list[BaseSession]

    @property
    def clock(self) -> Clock:
        """The clock of all samples."""
        ...

    def put(self, session: ProbingSession, wanted: list[Wanted]) -> tuple[Probe, ...]:
        """Add a session, and put in its probes. Raises GilkError."""
        ...

    def put_clauses(self, session: PreparedSession) -> None:
        """Add a session for clauses, and put in its probes. Raises GilkError."""
        ...

    def take_in_later(self, process: Process, session: BaseSession) -> None:
        """Add a session for libraries that a process has opened."""
        ...


@dataclass(frozen=True)
class ProcessInstruments:
    """The instruments of ``run`` for processes. ``waits``: whether points that mean nothing yet may be in libraries
    that are opened later. The functions that requests name are noted in ``asked``, watches in ``openings``.
    """

    run: HasSessions
    requests: Sequence[Request]
    clauses: Sequence[ClauseRequest]
    clause_sessions: ClauseSessions | None
    asked: NamedFunctions
    openings: Openings
    waits: bool = False

    def put_in(self, process: Process) -> None:
        """Put instruments into a process, while no library can be unmapped. Raises GilkError."""
        opened = self.watch_libraries(process, process.loaded(), process.unstarted, is_first=True)
        code = process if opened is None else among(process, opened.known)
        wanted = self._wanted(process, code)
        if self.requests:
            self._put_points(process, wanted)
        missing = self.openings.miss_clause if self.waits else None
        made = self.with_clauses(process, missing, code)
        if made is not None:
            self.openings.note(process, made)
            self.run.put_clauses(made)
        elif not self.requests:
            self._put_points(process, [])

    def _wanted(self, process: Process, code: Process) -> list[Wanted]:
        """The probes that the requests mean in ``code``. Raises GilkError."""
        try:
            wanted = expanded(code, self.requests, self.openings.miss if self.waits else None)
        except UsageError as error:
            raise with_hint(error, _WAIT) if error.slug == "no-such-image" else error
        self.asked.note(process, without_instances(self.requests), ((w.loaded, w.function) for w in wanted))
        return wanted

    def _put_points(self, process: Process, wanted: list[Wanted]) -> None:
        session = ClientSession(process, points=max(len(wanted), 1), ring=RING)
        self.openings.note(process, session)
        self.run.put(session, wanted)

    def with_clauses(
        self, process: Process, missing: Callable[[UsageError], None] | None = None, code: Process | None = None
    ) -> PreparedSession | None:  # fmt: skip
        """A session for the clauses, with nothing in it yet; None if the run has none.

        ``missing`` is called with the error of each request without a point, and None is returned if none has any; if
        it is None, such an error is raised. ``code``: a view of the process with the images where points are looked up,
        if not all. Raises GilkError.
        """
        if not self.clauses:
            return None
        assert self.clause_sessions is not None
        return self.clause_sessions(process, self.clauses, self.asked, missing, code or process)

    # Libraries that are opened later.

    def watch_libraries(
        self, process: Process, known: Sequence[Loaded], launched: bool, is_first: bool = False
    ) -> OpenedLibraries | None:
        """Watch for libraries that the process opens, if points may be in some; else None. ``is_first``: before any
        probe is in. Raises TargetError."""
        make, put_clauses = self._session_for_later, self._put_later_clauses
        probes = LaterProbes(process, self.requests, make, put_clauses, bool(self.clauses))
        opened = OpenedLibraries(process, patterns(self.requests, self.clauses), probes)
        return opened if self.openings.begin(opened, probes, self.run.clock, known, launched, is_first) else None

    def _session_for_later(self, process: Process, points: int) -> ClientSession:
        session = ClientSession(process, points, ring=RING, clock=self.run.clock)
        self.run.take_in_later(process, session)
        return session

    def _put_later_clauses(self, process: Process, code: Process) -> bool:
        """Put the probes of clauses into libraries that were opened; returns whether there are any."""
        made = self.with_clauses(process, lambda _: None, code)
        if made is not None:
            self.run.take_in_later(process, made)
            made.begin()
            self.openings.meet_clauses()
        return made is not None
