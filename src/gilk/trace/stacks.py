# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stacks that were counted at points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import zip_longest

from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class CountedStack:
    """A stack and the number of times, ``count``, that it was found at ``point``. ``frames``: the innermost first, as
    ``image`function+0x10``. ``lines``: for each frame its line of the source, such as ``parse.c:12``; '' where that is
    not known.
    """

    point: str
    frames: tuple[str, ...]
    count: int
    lines: tuple[str, ...] = ()


def added(stacks: Iterable[CountedStack]) -> list[CountedStack]:
    """The stacks with equal ones of several processes added up, those with the highest counts first."""
    total: Counter[tuple[str, tuple[str, ...], tuple[str, ...]]] = Counter()
    for stack in stacks:
        total[stack.point, stack.frames, stack.lines] += stack.count
    found = (CountedStack(point, frames, count, lines) for (point, frames, lines), count in total.items())
    return sorted(found, key=lambda stack: (-stack.count, stack.point, stack.frames))


def function_of(frame: str) -> str:
    """The function of a frame, without the offset: ``w`main`` for ``w`main+0xe``."""
    name, separator, _ = frame.rpartition("+0x")
    return name if separator else frame


def by_calls(stacks: Iterable[CountedStack]) -> Counter[tuple[tuple[str, str], ...]]:
    """The number of times that each path of functions was found, the outermost function first, each function with its
    line in the stack; '' where that is not known.
    """
    found: Counter[tuple[tuple[str, str], ...]] = Counter()
    for stack in stacks:
        frames = [*zip_longest(map(function_of, stack.frames), stack.lines, fillvalue="")]
        found[tuple(reversed(frames))] += stack.count
    return found


def by_path(stacks: Iterable[CountedStack]) -> Counter[tuple[str, ...]]:
    """The number of times that each path of functions was found, the outermost function first."""
    found: Counter[tuple[str, ...]] = Counter()
    for stack in stacks:
        found[tuple(function_of(frame) for frame in reversed(stack.frames))] += stack.count
    return found
