# SPDX-License-Identifier: LGPL-2.1-or-later
"""A strategy for `gilk run` that chooses every instruction, and writes down the place of each point for the
comparison."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gilk.session.places import FunctionView, Place
from gilk.splice.points import Point

_NOT_TEXT = ("_init", "_fini")  # in sections of their own, for which callgrind reports nothing


def instructions(function: FunctionView) -> Iterator[Place]:
    """The points before every instruction of the function. The points of its blocks are only written down."""
    places = list(_places(function))
    repeated = {place.point.address for place, repeats in places if repeats}
    blocks = [place for view in function.blocks for place in (view.pre, view.post)]
    if function.name not in _NOT_TEXT:
        with open(os.environ["PEERS_POINTS"], "a") as file:
            file.writelines(_line(place.point, repeated) for place in (*blocks, *(place for place, _ in places)))
    return (place for place, _ in places)


instructions.instrument = "count"  # type: ignore[attr-defined]


def _places(function: FunctionView) -> Iterator[tuple[Place, bool]]:
    """The points before every instruction, each with whether the instruction has a repeat prefix: an oracle may
    count its rounds."""
    analysis = function.process.analysis(function.loaded)
    for block in function.function.blocks:
        for step in analysis.steps(function.function, block):
            instruction = step.instruction
            where = f"+{instruction.ip - function.function.start:#x}"
            point = Point(function.loaded.name, function.name, where, instruction.ip, False)
            yield function.place(point), instruction.has_rep_prefix or instruction.has_repne_prefix


def _line(point: Point, repeated: set[int]) -> str:
    """The line about a point: label, address, and kind as in differences.Spot."""
    kind = "rep" if point.address in repeated else "post" if point.after else ""
    return f"{point.label}\t{point.address}\t{kind}\n"
