# SPDX-License-Identifier: LGPL-2.1-or-later
"""The part of runs that deals with libraries which processes open while a run goes on: their points have instruments
before their first instruction, or the run says which have none."""

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

#: The errors that say that there is nothing of what was asked for.
_NOT_THERE = frozenset({
    "no-such-image", "no-such-function", "no-such-block", "no-such-line", "no-line-table", "not-an-instruction",
    "no-such-probe",
})  # fmt: skip
_ROOM = 256  # counters of a session for what comes later, at the least


def patterns(requests: Sequence[Request], clauses: Sequence[ClauseRequest]) -> list[str]:
    """The images that points name. USDT probes may be in any; system calls are those of the images that there are."""
    named = [request.spec.image for request in requests if not request.of_kernel]
    wheres = [clause.where for clause in clauses]
    named += [where.image if isinstance(where, Spec) else "*" for where in wheres
              if isinstance(where, Spec) or where.kind == "usdt"]  # fmt: skip
    return named


def expanded(
    code: Process, requests: Iterable[Request], missing: Callable[[Request, UsageError], None] | None
) -> list[Wanted]:
    """The probes that requests mean. ``missing`` is told of those that mean nothing there; None: that is raised."""
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
    """Nothing, if the error says that there is nothing of what was asked for; else it is raised."""
    if error.slug not in _NOT_THERE:
        raise error


class LaterProbes:
    """Probes of a run in libraries that a process opens. ``make``: a session with room for so many counters.
    ``put_clauses``: puts in what clauses carry out, of images; whether there is any. ``has_clauses``: there is
    something of the kind.
    """

    def __init__(
        self, process: Process, requests: Sequence[Request],
        make: Callable[[Process, int], ClientSession], put_clauses: Callable[[Process, Process], bool],
        has_clauses: bool,
    ) -> None:  # fmt: skip
        self._process, self._requests, self._make, self._put_clauses = process, requests, make, put_clauses
        self.sessions: list[BaseSession] = []  # that have probes in images which may be closed, and opened again
        self._has_clauses = has_clauses
        self._latest: ClientSession | None = None
        self._left = 0  # counters of that
        self.met: set[Request] = set()  # requests that meant something

    def put_in(self, images: Sequence[Loaded]) -> list[str] | None:
        """As HasProbes says; refusals are in the report of the run."""
        code, absent = among(self._process, images), set[Request]()
        wanted = expanded(code, self._requests, lambda request, _: absent.add(request))
        self.met.update(set(self._requests) - absent)
        if wanted:
            self._with_room(len(wanted)).insert_wanted(wanted)
        return [] if self._put_clauses(self._process, code) or wanted else None

    def has_points(self, loaded: Loaded) -> bool:
        """As HasProbes says; of what clauses carry out nobody knows, before they are compiled."""
        return bool(expanded(among(self._process, [loaded]), self._requests, lambda *_: None)) or self._has_clauses

    def _with_room(self, count: int) -> ClientSession:
        if self._latest is None or count > self._left:
            self._left = max(_ROOM, 2 * count)
            self._latest = self._make(self._process, self._left)
        self._left -= count
        return self._latest

    def note(self, session: BaseSession) -> None:
        """One more session has probes in images that may be closed, and opened again."""
        self.sessions.append(session)

    def regain(self, loaded: Loaded) -> list[str] | None:
        """As HasProbes says."""
        back = sum(session.regain(loaded) for session in self.sessions if isinstance(session, LosesImages))
        return [] if back else None

    def lose(self, loaded: Loaded) -> None:
        """As HasProbes says."""
        for session in self.sessions:
            if isinstance(session, LosesImages):
                session.lose(loaded)

    def forget(self, loaded: Loaded) -> None:
        """As HasProbes says."""
        for session in self.sessions:
            if isinstance(session, LosesImages):
                session.forget(loaded)


@runtime_checkable
class LosesImages(Protocol):
    """A session whose probes come and go with their images."""

    def lose(self, loaded: Loaded) -> None:
        """An image has been unmapped. Raises TargetError."""
        ...

    def regain(self, loaded: Loaded) -> int:
        """It is mapped again: how many probes it has. Raises GilkError."""
        ...

    def forget(self, loaded: Loaded) -> None:
        """Another file is mapped by that path: what the unmapped one had is over."""
        ...
