# SPDX-License-Identifier: LGPL-2.1-or-later
"""The watches of a run for libraries that its processes open and close, and the points that are still missing."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from gilk.errors import GilkError, UsageError
from gilk.runs.opened import LaterProbes, raise_unless_absent
from gilk.session.base import BaseSession
from gilk.session.broker.opened import OpenedLibraries, rest
from gilk.session.request import Request
from gilk.targets.base import Loaded
from gilk.targets.process import Process
from gilk.trace.clock import Clock
from gilk.values import dataclass

#: A request, or a sentence that describes one of a clause.
AnyPoint = Request | str


class _Watched(NamedTuple):
    libraries: OpenedLibraries
    probes: LaterProbes


@dataclass(frozen=True, slots=True)
class Stopped:
    """The end of a watch. ``notes``: sentences for the report; ``partial``: whether the report lacks something."""

    notes: tuple[str, ...] = ()
    partial: bool = False


class Openings:
    """The watches of a run. It is true while any process is watched."""

    def __init__(self) -> None:
        self._watched: dict[int, _Watched] = {}  # by id() of the process
        self._missing: dict[AnyPoint, UsageError] = {}  # requests without a point so far

    def __bool__(self) -> bool:
        return bool(self._watched)

    def __contains__(self, process: Process) -> bool:
        return id(process) in self._watched

    def begin(
        self, libraries: OpenedLibraries, probes: LaterProbes, clock: Clock, known: Sequence[Loaded],
        launched: bool, is_first: bool,
    ) -> bool:  # fmt: skip
        """Watch a process; returns False if no library can come, and then does not watch it; see OpenedLibraries.begin.

        Raises TargetError; then the watch stays among the others, to be closed with them.
        """
        process = libraries.process
        self._watched[id(process)] = _Watched(libraries, probes)
        if libraries.begin(clock, known, launched, is_first):
            return True
        del self._watched[id(process)]
        return False

    def note(self, process: Process, session: BaseSession) -> None:
        """Note a session whose probes come and go with the libraries of the process, if that is watched."""
        if process in self:
            self._watched[id(process)].probes.note(session)

    def rest(self, seconds: float) -> None:
        """Wait for ``seconds``, or until a process has opened a library."""
        rest((watched.libraries for watched in self._watched.values()), seconds)

    # Points that are still to come.

    def miss(self, what: AnyPoint, error: UsageError) -> None:
        """Note that a request has no point yet; ``error`` says why."""
        self._missing[what] = error

    def miss_clause(self, error: UsageError) -> None:
        """Note that a clause has no point yet. Raises the error, if it means something else."""
        raise_unless_absent(error)
        self.miss(error.message, error)

    def meet_clauses(self) -> None:
        """Forget the missing points of clauses: some have come, but it is not known which."""
        self._missing = {request: why for request, why in self._missing.items() if isinstance(request, Request)}

    # The end.

    def stop(self, process: Process | None) -> Stopped:
        """End the watch of a process, so that no thread of it is held any more; returns what the report needs. Raises
        GilkError."""
        watched = self._watched.pop(id(process), None)
        if watched is None:
            return Stopped()
        libraries, probes = watched
        end = libraries.close()
        for session in probes.sessions:
            if session.goes_on:  # because of the watch, which has ended now
                session.restored, session.goes_on = end.restored, end.goes_on
        self._missing = {request: why for request, why in self._missing.items() if request not in probes.met}
        return Stopped((*end.notes, *libraries.remarks, *libraries.lacking), bool(libraries.lacking))

    def stop_all(self) -> Stopped:
        """End all watches; returns what the report needs, with the requests that have no points."""
        notes, partial = list[str](), False
        for process in [watched.libraries.process for watched in self._watched.values()]:
            try:
                stopped = self.stop(process)
            except GilkError as error:
                stopped = Stopped((f"{process.who}: {error}",), True)
            notes += stopped.notes
            partial |= stopped.partial
        notes += [f"nothing has come that was waited for: {error}" for error in self._missing.values()]
        return Stopped(tuple(notes), partial or bool(self._missing))

    def abort(self) -> None:
        """End all watches without a report."""
        for watched in self._watched.values():
            with contextlib.suppress(GilkError):
                watched.libraries.close()
