# SPDX-License-Identifier: LGPL-2.1-or-later
"""Libraries that processes open during a run: their points get instruments before their first instruction, or the run
reports which have none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

from gilk.errors import UsageError
from gilk.runs.clause_request import ClauseRequest
from gilk.session.among import among
from gilk.session.base import BaseSession
from gilk.session.broker.client_session import ClientSession
from gilk.session.request import Request, Wanted, expand
from gilk.spec.point import Spec
from gilk.targets.base import Loaded
from gilk.targets.process import Process

#: Errors that mean that the points do not exist.
_NOT_THERE = frozenset({
    "no-such-image", "no-such-function", "no-such-block", "no-such-line", "no-line-table", "not-an-instruction",
    "no-such-probe",
})  # fmt: skip
_ROOM = 256  # the least number of counters of a session for later points


def patterns(requests: Sequence[Request], clauses: Sequence[ClauseRequest]) -> list[str]:
    """The patterns of images that points name. USDT probes may be in any image; system calls are traced in the present
    images only."""
    named = [request.spec.image for request in requests if not request.of_kernel]
    wheres = [clause.where for clause in clauses]
    named += [where.image if isinstance(where, Spec) else "*" for where in wheres
              if isinstance(where, Spec) or where.kind == "usdt"]  # fmt: skip
    return named


def expanded(
    code: Process, requests: Iterable[Request], missing: Callable[[Request, UsageError], None] | None
) -> list[Wanted]:
    """The probes that requests mean. ``missing`` is called with each request that means nothing, and its error; if it
    is None, the error is raised."""
    found: list[Wanted] = []
    for request in requests:
        try:
            found += expand(code, [request])
        except UsageError as error:
            if missing is None:
                raise
            raise_unless_absent(error)
            missing(request, error)
    return found


def raise_unless_absent(error: UsageError) -> None:
    """Raise the error, unless it means that the points do not exist."""
    if error.slug not in _NOT_THERE:
        raise error


class LaterProbes:
    """Puts a run's probes into libraries that a process opens (HasProbes).

    ``make``: makes a session with room for so many counters. ``put_clauses``: puts the probes of clauses into some
    images of a process; returns whether there were any. ``has_clauses``: whether the run has clauses.
    """

    def __init__(
        self, process: Process, requests: Sequence[Request],
        make: Callable[[Process, int], ClientSession], put_clauses: Callable[[Process, Process], bool],
        has_clauses: bool,
    ) -> None:  # fmt: skip
        self._process, self._requests, self._make, self._put_clauses = process, requests, make, put_clauses
        self.sessions: list[BaseSession] = []  # those with probes in images that may be closed and opened again
        self._has_clauses = has_clauses
        self._latest: ClientSession | None = None
        self._left = 0  # free counters of _latest
        self.met: set[Request] = set()  # requests that have had points

    def put_in(self, images: Sequence[Loaded]) -> list[str] | None:
        """Put probes into the libraries; see HasProbes.put_in. Refusals are in the run's report, so the list is
        empty."""
        code, absent = among(self._process, images), set[Request]()
        wanted = expanded(code, self._requests, lambda request, _: absent.add(request))
        self.met.update(set(self._requests) - absent)
        if wanted:
            self._with_room(len(wanted)).insert_wanted(wanted)
        return [] if self._put_clauses(self._process, code) or wanted else None

    def has_points(self, loaded: Loaded) -> bool:
        """Whether the library has points; see HasProbes.has_points. Points of clauses are unknown before these are
        compiled, so they count as there."""
        return bool(expanded(among(self._process, [loaded]), self._requests, lambda *_: None)) or self._has_clauses

    def _with_room(self, count: int) -> ClientSession:
        if self._latest is None or count > self._left:
            self._left = max(_ROOM, 2 * count)
            self._latest = self._make(self._process, self._left)
        self._left -= count
        return self._latest

    def note(self, session: BaseSession) -> None:
        """Note a session with probes in images that may be closed and opened again."""
        self.sessions.append(session)

    def regain(self, loaded: Loaded) -> list[str] | None:
        """Put probes into a library that is opened again; see HasProbes.regain."""
        back = sum(session.regain(loaded) for session in self.sessions if isinstance(session, LosesImages))
        return [] if back else None

    def lose(self, loaded: Loaded) -> None:
        """Note that a library was closed; see HasProbes.lose."""
        for session in self.sessions:
            if isinstance(session, LosesImages):
                session.lose(loaded)

    def forget(self, loaded: Loaded) -> None:
        """Forget the probes of a closed library; see HasProbes.forget."""
        for session in self.sessions:
            if isinstance(session, LosesImages):
                session.forget(loaded)


@runtime_checkable
class LosesImages(Protocol):
    """A session whose probes come and go with their images."""

    def lose(self, loaded: Loaded) -> None:
        """Note that an image was unmapped. Raises TargetError."""
        ...

    def regain(self, loaded: Loaded) -> int:
        """Put the probes of an unmapped image in again, after it was mapped again; returns how many it has. Raises
        GilkError."""
        ...

    def forget(self, loaded: Loaded) -> None:
        """Forget the probes of an unmapped image whose path is another file now."""
        ...
