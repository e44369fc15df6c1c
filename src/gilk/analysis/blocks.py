# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes blocks of a finished traversal: maximal runs of instructions that are entered only at their first one."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

from gilk.analysis.model import Block, End
from gilk.analysis.streams import InstructionStream
from gilk.analysis.traverse import Traversal, Way


def build(traversal: Traversal, leaders: Iterable[int], landing_pads: frozenset[int]) -> tuple[Block, ...]:
    """Blocks of all code that ``traversal`` reached, sorted and disjoint.

    ``leaders`` are further addresses at which a block begins if an instruction does: those that code or data elsewhere
    refer to.
    """
    wanted = sorted(traversal.leaders.union(leaders))
    runs = [run for stream in traversal.streams for run in _runs(stream, traversal.ways, wanted)]
    runs.sort(key=lambda run: (run[0], run[1]))
    runs = list(_disjoint(runs))
    starts = {start for start, _, _ in runs}
    return tuple(_block(number, run, starts, landing_pads, traversal) for number, run in enumerate(runs))


Run = tuple[int, int, tuple[int, Way]]  # start, end, (address of the transfer or end, how it ends)


def _runs(stream: InstructionStream, ways: dict[int, Way], wanted: list[int]) -> Iterator[Run]:
    """The reached stretches of a stream, joined across calls that return and cut at leaders."""
    begin: int | None = None
    for low, control in stream.stretches():
        way = ways[-control if control == stream.end else control]
        if begin is None:
            begin = low
        for leader in wanted[bisect.bisect_right(wanted, begin) : bisect.bisect_right(wanted, control)]:
            if leader in stream.index:
                yield begin, leader, (leader, Way(leader, End.FALL, (leader,)))
                begin = leader
        if way.how is not None:
            if begin < way.end:
                yield begin, way.end, (control, way)
            begin = None
    if begin is not None:
        yield begin, way.end, (way.end, Way(way.end, End.FALL, (way.end,)))


def _disjoint(runs: list[Run]) -> Iterator[Run]:
    """The runs without those that begin amid another one: bytes that were decoded twice."""
    position = 0
    for run in runs:
        if run[0] >= position:
            position = run[1]
            yield run


def _block(number: int, run: Run, starts: set[int], landing_pads: frozenset[int], traversal: Traversal) -> Block:
    start, end, (terminator, way) = run
    assert way.how is not None
    how = way.how
    if how is End.FALL:
        terminator = end
    successors = tuple(address for address in way.inside if address in starts)
    missed = next((address for address in way.inside if address not in starts), 0)
    return Block(number, start, end, terminator, how, successors, way.outside or missed, start in landing_pads)
