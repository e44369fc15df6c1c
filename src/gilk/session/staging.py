# SPDX-License-Identifier: LGPL-2.1-or-later
"""A plan made and handed to who holds the target, as often as it takes.

A process goes on while plans for it are made, and may map memory just where
a jump was to lead. What it took is then known, what was free is ours: the next
plan needs little that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from gilk.analysis.model import Function
from gilk.errors import MemoryTaken
from gilk.splice.plan import Plan, Want
from gilk.splice.planner import Ground, forget, plan

_TRIES = 8

S = TypeVar("S")
_Staged = TypeVar("_Staged", covariant=True)
Planning = Callable[[Ground, Iterable[tuple[Function, list[Want]]]], Plan]


class Stager(Protocol[_Staged]):
    """Who makes a plan ready, under a number: what was made of it is kept as long as it may be run.

    Raises MemoryTaken when the target is not any more what the plan counted on.
    """

    def stage(self, plan: Plan) -> tuple[int, _Staged]: ...


def staged(
    ground: Ground, wanted: list[tuple[Function, list[Want]]], stager: Stager[S], planning: Planning = plan
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
