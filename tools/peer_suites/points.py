# SPDX-License-Identifier: LGPL-2.1-or-later
"""A strategy for `gilk run`: every instruction. It writes down where each of the points is, for the comparison."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gilk.session.places import FunctionView, Place
from gilk.splice.points import Point

_NOT_TEXT = ("_init", "_fini")  # in sections of their own, which callgrind says nothing of


def instructions(function: FunctionView) -> Iterator[Place]:
    """Before every instruction. The points of blocks are written down besides."""
    places = list(_places(function))
    repeated = {place.point.address for place, repeats in places if repeats}
    blocks = [place for view in function.blocks for place in (view.pre, view.post)]
    if function.name not in _NOT_TEXT:
        with open(os.environ["PEERS_POINTS"], "a") as file:
            file.writelines(_line(place.point, repeated) for place in (*blocks, *(place for place, _ in places)))
    return (place for place, _ in places)


instructions.instrument = "count"  # type: ignore[attr-defined]


def _places(function: FunctionView) -> Iterator[tuple[Place, bool]]:
    """And whether the instruction repeats: an oracle may count its rounds."""
    analysis = function.process.analysis(function.loaded)
    for block in function.function.blocks:
        for step in analysis.steps(function.function, block):
            instruction = step.instruction
            where = f"+{instruction.ip - function.function.start:#x}"
            point = Point(function.loaded.name, function.name, where, instruction.ip, False)
            yield function.place(point), instruction.has_rep_prefix or instruction.has_repne_prefix


def _line(point: Point, repeated: set[int]) -> str:
    """Label, address and kind, as differences.Spot has it."""
    kind = "rep" if point.address in repeated else "post" if point.after else ""
    return f"{point.label}\t{point.address}\t{kind}\n"
