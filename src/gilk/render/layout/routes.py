# SPDX-License-Identifier: LGPL-2.1-or-later
"""Chooses the way of each edge: down into the gap below its block, along a channel without blocks, and to the top of
the other block.

Gap n is the one above row n. Channel k lies to the left of half column k; a block at column c blocks channel c + 1 in
its own row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import count

from gilk.render.layout.columns import WIDE
from gilk.render.layout.model import Arc
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class ArcWay:
    """The way of an edge from gap ``first`` to gap ``last`` in ``channel``, which is -1 if they are the same gap."""

    first: int
    last: int
    channel: int


def ways(links: Sequence[Arc], row: Sequence[int], column: Sequence[int]) -> list[ArcWay]:
    taken: dict[int, list[int]] = defaultdict(list)
    for block in sorted(range(len(row)), key=lambda block: row[block]):
        taken[column[block] + 1].append(row[block])
    widest = max(column, default=0) + WIDE
    return [_way(link, row, column, taken, widest) for link in links]


def _way(link: Arc, row: Sequence[int], column: Sequence[int], taken: dict[int, list[int]], widest: int) -> ArcWay:
    first, last = row[link.source] + 1, row[link.target]
    if first == last:
        return ArcWay(first, last, -1)
    low, high = min(first, last), max(first, last) - 1
    begin, end = column[link.source] + 1, column[link.target] + 1
    for channel in _nearest(begin, end, widest):
        rows = taken.get(channel, ())
        at = bisect_left(rows, low)
        if at == len(rows) or rows[at] > high:
            return ArcWay(first, last, channel)
    raise AssertionError("the outermost channels are free")


def _nearest(begin: int, end: int, widest: int) -> Iterable[int]:
    """Channels, those with the shortest way first: from that of the end on to that of the beginning, then outwards."""
    step = 1 if begin >= end else -1
    yield from range(end, begin + step, step)
    low, high = min(begin, end), max(begin, end)
    for distance in count(1):
        if low - distance < 0 and high + distance > widest:
            return
        if low - distance >= 0:
            yield low - distance
        if high + distance <= widest:
            yield high + distance


def lanes(spans: Sequence[tuple[Hashable, int, int]]) -> tuple[list[int], dict[Hashable, int]]:
    """Lanes for spans (channel or gap, from, to), so that no two overlap: the lane of each, and the number of lanes by
    channel or gap.
    """
    lane, ends = [0] * len(spans), defaultdict[Hashable, list[int]](list)
    for number in sorted(range(len(spans)), key=lambda n: (spans[n][1], -spans[n][2], n)):
        where, low, high = spans[number]
        last = ends[where]
        free = next((place for place, end in enumerate(last) if end < low), len(last))
        last[free : free + 1] = [high]
        lane[number] = free
    return lane, {where: len(last) for where, last in ends.items()}
