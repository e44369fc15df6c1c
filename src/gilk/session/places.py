# SPDX-License-Identifier: LGPL-2.1-or-later
"""Views of a live target's functions, blocks and points, for users of the Python API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gilk.analysis.model import Block, Function
from gilk.session.request import Builtin, CFunction, Wanted, having, of_line, probes_at
from gilk.spec.point import Spec, parse
from gilk.splice import points
from gilk.splice.points import Point
from gilk.targets.base import Code, Loaded
from gilk.values import dataclass


@dataclass(frozen=True)
class Place:
    """A point of a process, which Session.insert() takes."""

    process: Code
    loaded: Loaded
    function: Function
    point: Point

    @property
    def address(self) -> int:
        """The address in the running process."""
        return self.point.address + self.loaded.bias

    def wanted(self, instrument: Builtin | CFunction) -> Iterator[Wanted]:
        """The probes that the instrument makes here. Raises UsageError `time-at-entry`."""
        return probes_at(self.process, self.loaded, self.function, self.point, instrument)

    def __repr__(self) -> str:
        return f"<Place {self.point.label} at {self.address:#x}>"


@dataclass(frozen=True)
class BlockView:
    """A basic block of a function, with its two points ``pre`` and ``post``."""

    owner: FunctionView
    block: Block

    @property
    def pre(self) -> Place:
        """The point before the block."""
        return self.owner.place(points.pre(self.owner.loaded.name, self.owner.function, self.block))

    @property
    def post(self) -> Place:
        """The point after the block: before the jump or call at its end, or after its last instruction."""
        owner = self.owner
        return owner.place(
            points.post(owner.loaded.name, owner.process.analysis(owner.loaded), owner.function, self.block)
        )

    def __repr__(self) -> str:
        return f"<Block {self.pre.point.label} at {self.pre.address:#x}>"


@dataclass(frozen=True)
class FunctionView:
    """A function of a loaded image, with its blocks and points."""

    process: Code
    loaded: Loaded
    function: Function

    @property
    def name(self) -> str:
        """The function's name in its image."""
        return self.function.name

    @property
    def address(self) -> int:
        """The run-time address of the function's first instruction."""
        return self.function.start + self.loaded.bias

    @property
    def blocks(self) -> tuple[BlockView, ...]:
        """The basic blocks, by their numbers."""
        return tuple(BlockView(self, block) for block in self.function.blocks)

    @property
    def entry(self) -> Place:
        """The point at the function's entry."""
        return self.points("entry")[0]

    @property
    def returns(self) -> tuple[Place, ...]:
        """The return points, in all parts of the function."""
        image, analysis = self.process.image(self.loaded.path), self.process.analysis(self.loaded)
        found = points.returns(image, analysis, self.function)
        return tuple(Place(self.process, self.loaded, part, point) for part, point in found)

    def points(self, where: str) -> tuple[Place, ...]:
        """The points that ``where`` stands for, in the notation of the command line. Raises UsageError."""
        image, analysis = self.process.image(self.loaded.path), self.process.analysis(self.loaded)
        return tuple(self.place(p) for p in points.points(image, analysis, self.function, where))

    def place(self, point: Point) -> Place:
        """A point of this function as a Place."""
        return Place(self.process, self.loaded, self.function, point)

    def __repr__(self) -> str:
        return f"<Function {self.loaded.name}:{self.name} at {self.address:#x}>"


def functions(process: Code, glob: str = "*", image: str = "") -> Iterator[FunctionView]:
    """The functions that match the globs ``glob`` and ``image``; '' is the main program. Raises as `having`."""
    for loaded, spans in having(process, Spec(image, glob, "entry")):
        analysis = process.analysis(loaded)
        for span in spans:
            yield FunctionView(process, loaded, analysis.function(span))


def places_at(process: Code, where: str | Place | Iterable[Place]) -> list[Place]:
    """The places that ``where`` stands for: points in the notation of the command line, or places. Raises as
    `having`."""
    if isinstance(where, Place):
        return [where]
    if not isinstance(where, str):
        return list(where)
    spec = parse(where)
    if spec.line:
        return [Place(process, loaded, function, point) for loaded, function, point in of_line(process, spec)]
    return [p for view in functions(process, spec.function, spec.image) for p in view.points(spec.where)]
