# SPDX-License-Identifier: LGPL-2.1-or-later
"""The counts of edges between blocks, computed from counts before blocks and before the jumps at their ends.

The counts of all edges into a block add up to the count at its start, those of all edges out of it to the count at its
end. If all but one edge of such a sum are known, so is that one. An edge from a block with several ways out to one with
several ways in may stay unknown; it is never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

from gilk.analysis.model import Block, End, Function
from gilk.splice.points import Point
from gilk.values import dataclass

Key = tuple[int, int]  # the starts of two blocks; 0 for outside the function

#: Blocks that can be left in other ways than by their edges.
_LEFT = frozenset((End.TAIL, End.TAIL_INDIRECT, End.INDIRECT, End.RETURN, End.NORETURN, End.STOP))


@dataclass(frozen=True, slots=True)
class Passed:
    """A point of ``function``, and how often it was hit; None if it could not be spliced."""

    image: str
    function: Function
    point: Point
    count: int | None


@dataclass
class _Sum:
    """A sum: the counts of ``edges`` add up to ``total``."""

    total: int
    edges: set[Key] = field(default_factory=set)


def told(passed: Iterable[Passed]) -> dict[str, int | None]:
    """The count of each edge by its name, such as `prog:f:@1->@2`; None if it is unknown. Edges into other functions
    are left out."""
    graphs: dict[tuple[str, int], tuple[Function, dict[int, int | None]]] = {}
    for each in passed:
        _, counts = graphs.setdefault((each.image, each.function.start), (each.function, {}))
        counts[each.point.address] = each.count
    # Parts of a function jump into the middle of it, so that not all ways into these blocks are counted.
    targets = {block.target for function, _ in graphs.values() for block in function.blocks}
    found: dict[str, int | None] = {}
    for (image, _), (function, counts) in graphs.items():
        known = _solve(_sums(function, counts, targets))
        for source, to in _edges(function):
            name = f"{image}:{function.name}:@{source.index}->@{to.index}"
            found[name] = known.get((source.start, to.start))
    return found


def _edges(function: Function) -> Iterator[tuple[Block, Block]]:
    blocks = {block.start: block for block in function.blocks}
    for block in function.blocks:
        for successor in dict.fromkeys(block.successors):
            if successor in blocks:
                yield block, blocks[successor]


def _sums(function: Function, counts: dict[int, int | None], targets: set[int]) -> list[_Sum]:
    into: dict[int, set[Key]] = {block.start: set() for block in function.blocks}
    out: dict[int, set[Key]] = {block.start: set() for block in function.blocks}
    for source, to in _edges(function):
        into[to.start].add((source.start, to.start))
        out[source.start].add((source.start, to.start))
    sums = []
    for block in function.blocks:
        if block.start == function.start or block.landing_pad or block.start in targets:
            into[block.start].add((0, block.start))
        if block.how in _LEFT or block.target:
            out[block.start].add((block.start, 0))
        before, end = counts.get(block.start), _end(block, counts)
        sums += [_Sum(before, into[block.start])] if before is not None else []
        sums += [_Sum(end, out[block.start])] if end is not None else []
    return sums


def _end(block: Block, counts: dict[int, int | None]) -> int | None:
    """How often control reached the block's end; None if that is not known.

    A block without a jump at its end is left as often as it is entered, unless a call in it does not return.
    """
    return counts.get(block.terminator) if block.terminator < block.end else None


def _solve(sums: list[_Sum]) -> dict[Key, int]:
    known: dict[Key, int] = {}
    grown = True
    while grown:
        grown = False
        for each in sums:
            unknown = [edge for edge in each.edges if edge not in known]
            rest = each.total - sum(known.get(edge, 0) for edge in each.edges)
            if unknown and (len(unknown) == 1 or rest <= 0):
                known.update(dict.fromkeys(unknown, max(rest, 0)))
                grown = True
    return known
