# SPDX-License-Identifier: LGPL-2.1-or-later
"""The points of an image that ``[IMAGE:]FUNCTION:WHERE`` (spec/point.py) names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import Block, End, Function
from gilk.errors import UsageError
from gilk.image.model import FunctionSpan, Image
from gilk.splice.segments import is_call
from gilk.values import dataclass

#: The ends of blocks at which a function is left; the functions that tail calls lead to still run as part of the call.
LEAVES = frozenset((End.RETURN, End.TAIL, End.TAIL_INDIRECT))
RETURNS = frozenset((End.RETURN,))


@dataclass(frozen=True, slots=True)
class Point:
    """A place for an instrument: before the instruction at ``address``, which is link-time, or ``after`` it.

    ``part`` is the name of the part of ``function`` that it lies in (foo.cold), '' if it lies in the function itself.
    """

    image: str
    function: str
    where: str
    address: int
    after: bool
    part: str = ""

    @property
    def label(self) -> str:
        return f"{self.image}:{self.part or self.function}:{self.where}"


def points(image: Image, analysis: Analysis, function: Function, where: str) -> Iterator[Point]:
    """The points of one function that ``where`` names. Raises UsageError `no-such-block`, `not-an-instruction`."""
    name = image.name
    if where == "entry":
        yield entry(name, function)
    elif where == "return":
        yield from _left(name, analysis, function, LEAVES)
    elif where in ("blocks", "blocks-post"):
        for block in function.blocks:
            yield pre(name, function, block) if where == "blocks" else post(name, analysis, function, block)
    elif where.startswith("@"):
        number, _, side = where[1:].partition(":")
        yield _numbered(name, analysis, function, int(number), side)
    else:
        yield _offset(name, analysis, function, where)


def entry(image: str, function: Function | FunctionSpan) -> Point:
    """The point at which a call begins: the start of the function, or if it checks for stack there, behind that check.

    A span gives the start. For an image of Go, which checks, give the function.
    """
    if isinstance(function, Function) and function.check is not None:
        return Point(image, function.name, "entry", function.check.compare, True)
    return Point(image, function.name, "entry", function.start, False)


def returns(
    image: Image, analysis: Analysis, function: Function, how: frozenset[End] = LEAVES
) -> Iterator[tuple[Function, Point]]:
    """The points at which a function is left, in one of the ways ``how``, in all its parts, each with the part that it
    lies in."""
    for part in analysis.extents(function):
        name = "" if part is function else part.name
        for point in _left(image.name, analysis, part, how):
            yield part, replace(point, function=function.name, part=name)


def _left(image: str, analysis: Analysis, function: Function, how: frozenset[End]) -> Iterator[Point]:
    for block in function.blocks:
        if block.how in how and not function.owns(block.target):
            yield post(image, analysis, function, block)


def instructions(image: str, analysis: Analysis, function: Function) -> Iterator[Point]:
    """The points before the instructions that control reaches, block by block."""
    for address in reached(analysis, function):
        yield Point(image, function.name, f"+0x{address - function.start:x}", address, False)


def reached(analysis: Analysis, function: Function) -> Iterator[int]:
    """The addresses of the instructions that control reaches, block by block."""
    return (step.instruction.ip for block in function.blocks for step in analysis.steps(function, block))


def pre(image: str, function: Function, block: Block) -> Point:
    return Point(image, function.name, f"@{block.index}:pre", block.start, False)


def post(image: str, analysis: Analysis, function: Function, block: Block) -> Point:
    """The point behind the last instruction of a block that does not transfer control; a call counts as a transfer
    (gilk-extended.txt 3.3).
    """
    where = f"@{block.index}:post"
    if block.terminator < block.end:
        return Point(image, function.name, where, block.terminator, False)
    last = analysis.steps(function, block)[-1]
    return Point(image, function.name, where, last.instruction.ip, not is_call(last))


def _numbered(image: str, analysis: Analysis, function: Function, number: int, side: str) -> Point:
    if number >= len(function.blocks):
        hint = f"its blocks are @0 to @{len(function.blocks) - 1}"
        raise UsageError("no-such-block", f"{function.name} has no block @{number}", hint)
    block = function.blocks[number]
    return pre(image, function, block) if side == "pre" else post(image, analysis, function, block)


def _offset(image: str, analysis: Analysis, function: Function, where: str) -> Point:
    address = function.start + int(where[1:], 0)
    block = function.block_at(address)
    steps = analysis.steps(function, block) if block else ()
    if not any(step.instruction.ip == address for step in steps):
        raise UsageError(
            "not-an-instruction", f"{function.name}{where} does not begin an instruction that control reaches",
            "gilk cfg shows where instructions begin",
        )  # fmt: skip
    return Point(image, function.name, where, address, False)
