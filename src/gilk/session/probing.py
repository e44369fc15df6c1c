# SPDX-License-Identifier: LGPL-2.1-or-later
"""How probes come into sessions: as they are asked for, or all at once, as was known when the session was made."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from gilk.session import request
from gilk.session.base import BaseSession, Probe
from gilk.session.places import Place
from gilk.session.request import Builtin, CFunction, Request, Wanted
from gilk.spec.point import parse as parse_spec

Points = str | Place | Iterable[Place]


class PreparedSession(BaseSession):
    """Its probes are known when it is made, and go when it ends."""

    @abstractmethod
    def begin(self) -> tuple[Probe, ...]:
        """Put all of them in, once. Raises GilkError; then nothing has changed."""


class ProbingSession(BaseSession):
    """Its probes come and go."""

    def insert(
        self, points: Points, instrument: str | CFunction | Builtin, active: bool = True
    ) -> tuple[Probe, ...]:  # fmt: skip
        """Put one instrument at points: ``insert("main:entry", "count")``, or places (session/places.py).

        All is done in one change of the target. Raises UsageError, CompileError, TargetError; then nothing has changed.
        Probes that are not ``active`` are planned and written, but nothing leads to them before ``activate``.
        """
        chosen = request.instrument(instrument) if isinstance(instrument, str) else instrument
        if isinstance(points, str):
            return self.insert_wanted(list(request.expand(self.code, [Request(parse_spec(points), chosen)])), active)
        places = [points] if isinstance(points, Place) else list(points)
        return self.insert_wanted([w for place in places for w in place.wanted(chosen)], active)

    def insert_all(self, requests: Iterable[Request]) -> tuple[Probe, ...]:
        return self.insert_wanted(list(request.expand(self.code, requests)))

    @abstractmethod
    def insert_wanted(self, wanted: list[Wanted], active: bool = True) -> tuple[Probe, ...]:
        """Put instruments in, in one change. Raises UsageError, CompileError, TargetError; then nothing has changed."""

    @abstractmethod
    def remove(self, probes: Iterable[Probe]) -> None:
        """Take probes out again; their counts stay."""

    def activate(self, probes: Iterable[Probe]) -> None:
        """Have dormant probes in force, in one change. Raises TargetError; then nothing has changed.

        A function that has been planned is not planned again, unless some of its probes are active then, and some
        dormant.
        """
        self._switch(self._numbers(probes), on=True)

    def deactivate(self, probes: Iterable[Probe]) -> None:
        """Have probes dormant, in one change. Raises as activate() does."""
        self._switch(self._numbers(probes), on=False)

    @abstractmethod
    def _switch(self, numbers: list[int], on: bool) -> None: ...
