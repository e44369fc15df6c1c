# SPDX-License-Identifier: LGPL-2.1-or-later
"""Staging for a ledger: protocols of those that it asks, values of their answers; a plan is made and handed over, as
often as it takes.

A process goes on while plans for it are made, and may map memory just where a jump was to lead. The next plan then
avoids the memory that was taken, and has the rest reserved.
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
    """The holder of the target, for making plans ready. Plans go by a number, and are kept as long as they may run.

    Raises MemoryTaken when the target is not any more as the plan expects.
    """

    def stage(self, plan: Plan) -> tuple[int, _Kept]: ...


class Timed(Protocol):
    """How long a change took, in seconds, and how long of that the target stood still."""

    @property
    def total(self) -> float: ...
    @property
    def seconds(self) -> float: ...


@dataclass(frozen=True)
class Untouched:
    """A change that was none of the target."""

    total: float = 0.0
    seconds: float = 0.0


class BatchChanger(Protocol):
    """The holder of the target, who exchanges units of some batches for those of others."""

    def change(self, remove: Units, add: Units) -> Timed: ...

    def forget(self, number: int) -> None: ...

    def give_up(self, units: Units) -> None:
        """These units, which are dormant, will not be activated any more."""
        ...


class Cache(Protocol[_Kept]):
    """Plans that were made before, for some of what is wanted."""

    def take(self, ground: PatchContext, entries: Iterable[Entry]) -> StagedBatch[_Kept] | None:
        """A batch for some of the entries, staged, its sites claimed; None when there is none."""
        ...


class PlacedUnits(Protocol[_Kept]):
    """A template of plans, placed in the target as a batch, with its units dormant."""

    @property
    def number(self) -> int: ...
    @property
    def batch(self) -> _Kept: ...
    @property
    def ready(self) -> NDArray[np.bool_]:
        """For each unit of the template, whether the batch has it."""
        ...

    @property
    def first(self) -> int:
        """The key of its first probe."""
        ...

    @property
    def unit_of_key(self) -> NDArray[np.int64]:
        """For each key, less ``first``, its unit, or -1 where that is not ready."""
        ...

    def touching(self, ground: PatchContext, start: int) -> list[int]:
        """The units of the function that begins at ``start``, and those with a pun that shares bytes of it."""
        ...

    def entry(self, ground: PatchContext, unit: int) -> Entry:
        """The unit as an entry, whose probes are active."""
        ...


@dataclass(frozen=True)
class StagedBatch(Generic[_Kept]):
    """A batch that is ready under its number: the entries that it is for, each with its unit and its plan."""

    number: int
    batch: _Kept
    rows: list[tuple[Entry, int, FunctionPlan]]


@dataclass(frozen=True)
class ChangeResult:
    """The plans made by a change, and how long the target stood still."""

    plans: tuple[FunctionPlan, ...]
    outcome: Timed

    @property
    def refusals(self) -> dict[int, Refusal]:
        """By key, why the plans have no place for a probe."""
        return {key: reason for plan in self.plans for key, reason in plan.refusals.items()}


def staged(
    ground: PatchContext, wanted: list[tuple[Function, list[Want]]], stager: Stager[S], planning: Planning = plan
) -> tuple[Plan, int, S]:
    """The plan, and its number and what was made of it. Raises MemoryTaken when a process takes memory every time."""
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
