# SPDX-License-Identifier: LGPL-2.1-or-later
"""Staging for a ledger: the protocols of its partners and the values that they answer, and how a plan is made and
staged again until that works.

A process goes on while plans for it are made, and may map memory where a jump was to lead. The next plan then avoids
the memory that was taken, and has the rest reserved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from gilk.analysis.model import Function
from gilk.errors import MemoryTaken
from gilk.session.entry import Entry, Units
from gilk.splice.plan import FunctionPlan, Plan, Refusal, Want
from gilk.splice.planner import PatchContext, forget, plan
from gilk.values import dataclass

_TRIES = 8

S = TypeVar("S")
_Kept = TypeVar("_Kept", covariant=True)
Planning = Callable[[PatchContext, Iterable[tuple[Function, list[Want]]]], Plan]


class Stager(Protocol[_Kept]):
    """The holder of the target, in its role of making plans ready. A plan has a number, and is kept as long as its code
    may run.

    Raises MemoryTaken when the target's memory is not as the plan expects any more.
    """

    def stage(self, plan: Plan) -> tuple[int, _Kept]: ...


class Timed(Protocol):
    """The seconds that a change took in ``total``, and how many of these the target was stopped."""

    @property
    def total(self) -> float: ...
    @property
    def seconds(self) -> float: ...


@dataclass(frozen=True)
class Untouched:
    """The outcome of a change for which the target did not have to be touched."""

    total: float = 0.0
    seconds: float = 0.0


class BatchChanger(Protocol):
    """The holder of the target, in its role of exchanging units of some batches for units of others."""

    def change(self, remove: Units, add: Units) -> Timed: ...

    def forget(self, number: int) -> None: ...

    def give_up(self, units: Units) -> None:
        """Note that these units, which are dormant, will not be activated any more."""
        ...


class Cache(Protocol[_Kept]):
    """Plans that were made before, for some of the wanted functions."""

    def take(self, ground: PatchContext, entries: Iterable[Entry]) -> StagedBatch[_Kept] | None:
        """A staged batch for some of the entries, with its sites claimed; None if there is none."""
        ...


class PlacedUnits(Protocol[_Kept]):
    """A template of plans that is placed in the target as a batch, with its units dormant."""

    @property
    def number(self) -> int: ...
    @property
    def batch(self) -> _Kept: ...
    @property
    def ready(self) -> NDArray[np.bool_]:
        """Whether the batch has each unit of the template."""
        ...

    @property
    def first(self) -> int:
        """The key of the template's first probe."""
        ...

    @property
    def unit_of_key(self) -> NDArray[np.int64]:
        """The unit of each key, counted from ``first``; -1 if that unit is not ready."""
        ...

    def touching(self, ground: PatchContext, start: int) -> list[int]:
        """The units of the function that begins at ``start``, and those with a pun that shares bytes of the
        function."""
        ...

    def entry(self, ground: PatchContext, unit: int) -> Entry:
        """An entry made of the unit, with its probes active."""
        ...


@dataclass(frozen=True)
class StagedBatch(Generic[_Kept]):
    """A batch that the holder has under ``number``. ``rows``: the entries that it is for, each with its unit and its
    plan."""

    number: int
    batch: _Kept
    rows: list[tuple[Entry, int, FunctionPlan]]


@dataclass(frozen=True)
class ChangeResult:
    """The plans that a change made, and how long it took."""

    plans: tuple[FunctionPlan, ...]
    outcome: Timed

    @property
    def refusals(self) -> dict[int, Refusal]:
        """The reasons why plans refused probes, by key."""
        return {key: reason for plan in self.plans for key, reason in plan.refusals.items()}


def staged(
    ground: PatchContext, wanted: list[tuple[Function, list[Want]]], stager: Stager[S], planning: Planning = plan
) -> tuple[Plan, int, S]:
    """The plan, its number, and the batch made of it. Raises MemoryTaken if the process takes memory in its way each
    time."""
    tries = 0
    while True:
        mark = ground.mark()
        made = planning(ground, wanted)
        try:
            return made, *stager.stage(made)
        except MemoryTaken:
            for each in made.functions:
                forget(ground, each)
            ground.reset(mark)
            tries += 1
            if tries == _TRIES:
                raise
