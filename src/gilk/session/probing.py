# SPDX-License-Identifier: LGPL-2.1-or-later
"""The two ways in which sessions get probes: one by one, as they are asked for, or all at once, as given when the
session was made."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from gilk.collector import without_collector
from gilk.session import request
from gilk.session.base import BaseSession, Probe
from gilk.session.onward import followed
from gilk.session.places import Place
from gilk.session.request import Builtin, CFunction, Request, Wanted
from gilk.spec.point import parse as parse_spec

Points = str | Place | Iterable[Place]


class PreparedSession(BaseSession):
    """A session whose probes are known when it is made; they go when it ends."""

    @abstractmethod
    def begin(self) -> tuple[Probe, ...]:
        """Put all probes in, once. Raises GilkError; then nothing has changed."""


class ProbingSession(BaseSession):
    """A session whose probes come and go."""

    @without_collector()
    def insert(
        self, points: Points, instrument: str | CFunction | Builtin, active: bool = True
    ) -> tuple[Probe, ...]:  # fmt: skip
        """Put one instrument at points, in one change of the target: ``insert("main:entry", "count")``, or at places
        (session/places.py).

        Raises UsageError, CompileError, TargetError; then nothing has changed. Probes that are not ``active`` are
        planned and written, but nothing jumps to them before ``activate``.
        """
        chosen = request.instrument(instrument) if isinstance(instrument, str) else instrument
        if isinstance(points, str):
            return self._insert_followed(request.expand(self.code, [Request(parse_spec(points), chosen)]), active)
        places = [points] if isinstance(points, Place) else list(points)
        return self._insert_followed((w for place in places for w in place.wanted(chosen)), active)

    @without_collector()
    def insert_all(self, requests: Iterable[Request]) -> tuple[Probe, ...]:
        """Put in the probes that the requests mean, in one change. Raises as insert() does."""
        return self._insert_followed(request.expand(self.code, requests), True)

    def _insert_followed(self, wanted: Iterable[Wanted], active: bool) -> tuple[Probe, ...]:
        return self.insert_wanted(list(followed(self.code, wanted)), active)

    @abstractmethod
    def insert_wanted(self, wanted: list[Wanted], active: bool = True) -> tuple[Probe, ...]:
        """Put probes in, in one change. Raises UsageError, CompileError, TargetError; then nothing has changed."""

    @abstractmethod
    def remove(self, probes: Iterable[Probe]) -> None:
        """Take probes out; their counts stay."""

    def activate(self, probes: Iterable[Probe]) -> None:
        """Make dormant probes active, in one change. Raises TargetError; then nothing has changed.

        A function that was planned is not planned again, unless it has both active and dormant probes then.
        """
        self._switch(self._numbers(probes), on=True)

    def deactivate(self, probes: Iterable[Probe]) -> None:
        """Make probes dormant, in one change. Raises as activate() does."""
        self._switch(self._numbers(probes), on=False)

    @abstractmethod
    def _switch(self, numbers: list[int], on: bool) -> None: ...
