# SPDX-License-Identifier: LGPL-2.1-or-later
"""The processes of a run whose libraries are watched while they open and close them, and the points that are still to
come with one."""

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

#: A request, or a sentence that says which.
AnyPoint = Request | str


class _Watched(NamedTuple):
    libraries: OpenedLibraries
    probes: LaterProbes


@dataclass(frozen=True, slots=True)
class Stopped:
    """The sentences that the end of a watch adds to the report, and whether it lacks something for that."""

    notes: tuple[str, ...] = ()
    partial: bool = False


class Openings:
    """It is true while any process is watched."""

    def __init__(self) -> None:
        self._watched: dict[int, _Watched] = {}  # by the process's identity
        self._missing: dict[AnyPoint, UsageError] = {}  # requests without a point when it began

    def __bool__(self) -> bool:
        return bool(self._watched)

    def __contains__(self, process: Process) -> bool:
        return id(process) in self._watched

    def begin(
        self, libraries: OpenedLibraries, probes: LaterProbes, clock: Clock, known: Sequence[Loaded],
        launched: bool, is_first: bool,
    ) -> bool:  # fmt: skip
        """As OpenedLibraries.begin says: False, and not watched, where there is nothing to wait for. Raises
        TargetError; the watch is closed with the others then."""
        process = libraries.process
        self._watched[id(process)] = _Watched(libraries, probes)
        if libraries.begin(clock, known, launched, is_first):
            return True
        del self._watched[id(process)]
        return False

    def note(self, process: Process, session: BaseSession) -> None:
        """The session's probes go and come with libraries of the process, if that is watched."""
        if process in self:
            self._watched[id(process)].probes.note(session)

    def rest(self, seconds: float) -> None:
        """Wait for so long, or until something was opened."""
        rest((watched.libraries for watched in self._watched.values()), seconds)

    # Points that are still to come.

    def miss(self, what: AnyPoint, error: UsageError) -> None:
        """There is no such point yet, as the error says."""
        self._missing[what] = error

    def miss_clause(self, error: UsageError) -> None:
        """The same of a clause. Raises the error, if it says something else."""
        raise_unless_absent(error)
        self.miss(error.message, error)

    def meet_clauses(self) -> None:
        """Clauses have points now; nobody knows which."""
        self._missing = {request: why for request, why in self._missing.items() if isinstance(request, Request)}

    # The end.

    def stop(self, process: Process | None) -> Stopped:
        """No thread of it is held any more. Raises GilkError."""
        watched = self._watched.pop(id(process), None)
        if watched is None:
            return Stopped()
        libraries, probes = watched
        end = libraries.close()
        for session in probes.sessions:
            if session.goes_on:  # for the watch
                session.restored, session.goes_on = end.restored, end.goes_on
        self._missing = {request: why for request, why in self._missing.items() if request not in probes.met}
        return Stopped((*end.notes, *libraries.remarks, *libraries.lacking), bool(libraries.lacking))

    def stop_all(self) -> Stopped:
        """Nobody waits any more."""
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
        """Close all that are watched; nothing is reported."""
        for watched in self._watched.values():
            with contextlib.suppress(GilkError):
                watched.libraries.close()
