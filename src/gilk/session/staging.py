# SPDX-License-Identifier: LGPL-2.1-or-later
"""A plan made, and handed to the holder of the target, as often as it takes.

A process goes on while plans for it are made, and may map memory just where a jump was to lead. The next plan then
avoids the memory that was taken, and has the rest reserved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from gilk.analysis.model import Function
from gilk.errors import MemoryTaken
from gilk.splice.plan import Plan, Want
from gilk.splice.planner import PatchContext, forget, plan

_TRIES = 8

S = TypeVar("S")
_Staged = TypeVar("_Staged", covariant=True)
Planning = Callable[[PatchContext, Iterable[tuple[Function, list[Want]]]], Plan]


class Stager(Protocol[_Staged]):
    """The holder of the target, for making plans ready. Plans go by a number, and are kept as long as they may run.

    Raises MemoryTaken when the target is not any more as the plan expects.
    """

    def stage(self, plan: Plan) -> tuple[int, _Staged]: ...


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
