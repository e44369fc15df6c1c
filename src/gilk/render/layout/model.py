# SPDX-License-Identifier: LGPL-2.1-or-later
"""A graph to be laid out, and the result; all lengths are in one unit, which is pixels for the modules that draw."""

from __future__ import annotations

from gilk.values import dataclass

Point = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Arc:
    """An edge from one block to another, by their numbers."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Box:
    """The place of a block: its left upper corner, and its size."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Route:
    """An edge as a line with corners, from the lower side of one box to the upper side of another. ``back``: it closes
    a loop.
    """

    link: Arc
    points: tuple[Point, ...]
    back: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    """The whole picture: boxes in the order of the blocks, routes in the order of the links."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    routes: tuple[Route, ...]
