# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stacks that were counted at points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class CountedStack:
    """``frames``: the innermost first, as ``image`function+0x10``. ``count``: how often it was met at ``point``."""

    point: str
    frames: tuple[str, ...]
    count: int


def added(stacks: Iterable[CountedStack]) -> list[CountedStack]:
    """Equal ones of several processes together, those that were met most first."""
    total: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for stack in stacks:
        total[stack.point, stack.frames] += stack.count
    found = (CountedStack(point, frames, count) for (point, frames), count in total.items())
    return sorted(found, key=lambda stack: (-stack.count, stack.point, stack.frames))


def function_of(frame: str) -> str:
    """The function of a frame, without where in it: ``w`main+0xe`` is in ``w`main``."""
    name, separator, _ = frame.rpartition("+0x")
    return name if separator else frame


def by_path(stacks: Iterable[CountedStack]) -> Counter[tuple[str, ...]]:
    """How often each path of functions was met, the outermost function first."""
    found: Counter[tuple[str, ...]] = Counter()
    for stack in stacks:
        found[tuple(function_of(frame) for frame in reversed(stack.frames))] += stack.count
    return found
