# SPDX-License-Identifier: LGPL-2.1-or-later
"""A trace at every scale: for each pixel of a time line the longest call that begins in it, and the number of calls
that do.

Calls are put in the order of the rows in which they are drawn, a row for each depth of each track; those of a row do
not overlap. Above them is a pyramid: each level names the longest call of every four places of the level below. So the
longest call of any range of a row is found in a few steps for each level, whatever the size of the trace.
"""

from __future__ import annotations

import numpy as np

from gilk.trace.flow import Flow
from gilk.trace.nesting import Ints
from gilk.values import dataclass

_STEP = 4  # the number of places of a level that make one of the next


@dataclass(frozen=True, eq=False)
class Tile:
    """A call for each pixel of each row in which one begins, or into which an earlier one reaches.

    ``row``; ``call``, a number in the flow; ``start`` and ``duration`` in ns; ``count``: the number of calls that begin
    in that pixel, 0 for an earlier call.
    """

    row: Ints
    call: Ints
    start: Ints
    duration: Ints
    count: Ints


@dataclass(frozen=True, eq=False)
class TimePyramid:
    """The pyramid. ``call``: the numbers of the calls in a flow, in the order of rows; ``first``: the place at which
    each row begins, and at the end that at which the last one ends. ``start`` and ``duration`` are in the same order;
    ``levels`` are the pyramid's levels.
    """

    call: Ints
    first: Ints
    start: Ints
    duration: Ints
    levels: tuple[Ints, ...]

    @property
    def rows(self) -> int:
        return len(self.first) - 1

    def tile(self, begin: int, pixels: int, width: int, rows: range) -> Tile:
        """The calls to draw in ``pixels`` pixels from ``begin`` on, each ``width`` ns wide, for some rows."""
        edges = begin + np.arange(pixels + 1, dtype=np.int64) * width
        places = [self._edges(row, edges) for row in rows if row < self.rows]
        if not places:
            return Tile(*(np.empty(0, np.int64) for _ in range(5)))
        found = np.array(places)
        low, high = found[:, :-1].ravel(), found[:, 1:].ravel()
        used = np.flatnonzero(high > low)
        best = self._longest(low[used], high[used])  # copies, which it changes
        row = np.asarray(rows)[used // pixels]
        before, its_row = self._from_before(found[:, 0], rows, begin)
        at = np.concatenate([before, best])
        count = np.concatenate([np.zeros(len(before), np.int64), (high - low)[used]])
        return Tile(np.concatenate([its_row, row]), self.call[at], self.start[at], self.duration[at], count)

    def _edges(self, row: int, edges: Ints) -> Ints:
        """The places in a row at which each of the times ``edges`` is reached."""
        first, last = int(self.first[row]), int(self.first[row + 1])
        return np.searchsorted(self.start[first:last], edges) + first

    def within(self, begin: int, end: int) -> list[slice]:
        """The places of the calls of each row that begin from ``begin`` to ``end``."""
        edges = np.array([begin, end], np.int64)
        return [slice(*self._edges(row, edges).tolist()) for row in range(self.rows)]

    def _from_before(self, places: Ints, rows: range, begin: int) -> tuple[Ints, Ints]:
        """The calls that begin before ``begin`` and last beyond it, and their rows. ``places``: for each row that at
        which ``begin`` is reached.
        """
        row = np.asarray(rows)[: len(places)]
        there = places > self.first[row]
        at = places[there] - 1
        lasting = self.start[at] + self.duration[at] > begin
        return at[lasting], row[there][lasting]

    def _longest(self, low: Ints, high: Ints) -> Ints:
        """The place of the longest call in each of the ranges, none of which may be empty; of several, the
        first one.
        """
        best = low.copy()
        most = self.duration[low]
        mine = np.arange(len(low))  # the ranges that are not done
        for level in (None, *self.levels):
            for _ in range(_STEP - 1):
                step = np.flatnonzero((low % _STEP != 0) & (low < high))
                self._better(best, most, mine[step], low[step] if level is None else level[low[step]])
                low[step] += 1
            for _ in range(_STEP - 1):
                step = np.flatnonzero((high % _STEP != 0) & (low < high))
                high[step] -= 1
                self._better(best, most, mine[step], high[step] if level is None else level[high[step]])
            low, high = low // _STEP, high // _STEP
            left = np.flatnonzero(low < high)
            if not len(left):
                break
            low, high, mine = low[left], high[left], mine[left]
        return best

    def _better(self, best: Ints, most: Ints, where: Ints, other: Ints) -> None:
        """Take the calls ``other`` as best if they are longer, or if they are as long and come first."""
        theirs, known = self.duration[other], most[where]
        take = np.flatnonzero((theirs > known) | ((theirs == known) & (other < best[where])))
        best[where[take]], most[where[take]] = other[take], theirs[take]

    def at(self, places: Ints) -> TimePyramid:
        """The pyramid of the calls at ``places`` alone, which must be sorted; rows keep their numbers."""
        first = np.searchsorted(places, self.first)
        return _built(self.call[places], first, self.start[places], self.duration[places])


def pyramid(flow: Flow) -> TimePyramid:
    """The pyramid of a whole flow; its tracks have their rows one below the other."""
    depth, start = flow.column("depth").astype(np.int64), flow.column("start").astype(np.int64)
    row = np.empty(len(depth), np.int64)
    first_row = 0
    for track, rows in zip(flow.tracks, heights(flow), strict=True):
        part = slice(track.start, track.stop)
        row[part] = depth[part] + first_row
        first_row += rows
    order = np.lexsort((start, row))
    first = np.searchsorted(row[order], np.arange(first_row + 1))
    return _built(order, first, start[order], flow.column("duration").astype(np.int64)[order])


def heights(flow: Flow) -> list[int]:
    """The number of rows of each track."""
    depth = flow.column("depth")
    return [int(depth[track.start : track.stop].max()) + 1 for track in flow.tracks]


def _built(call: Ints, first: Ints, start: Ints, duration: Ints) -> TimePyramid:
    return TimePyramid(call, first, start, duration, levels_of(duration))


def levels_of(duration: Ints) -> tuple[Ints, ...]:
    """The levels above calls in the order of rows: for each four, the place of the longest."""
    levels: list[Ints] = []
    longest, places = duration, None
    while len(longest) >= _STEP:
        fours = longest[: len(longest) // _STEP * _STEP].reshape(-1, _STEP)
        best = np.arange(0, fours.size, _STEP) + fours.argmax(axis=1)
        longest, places = longest[best], best if places is None else places[best]
        levels.append(places)
    return tuple(levels)
