# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes trees of intervals, a track at a time; on whole columns at once, since there are millions of them.

An interval's start and end are places in the order of events, not times, since two events may have the same time.
Intervals *nest* if of any two of a track one contains the other, or they do not overlap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gilk.values import dataclass

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def rows_by_depth(depth: Ints) -> list[Ints]:
    """The places of the intervals at each depth, the outermost first."""
    by_depth = np.argsort(depth, kind="stable")
    starts = np.flatnonzero(np.diff(depth[by_depth], prepend=-1))
    return list(np.split(by_depth, starts[1:])) if len(depth) else []


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals as columns: the track, start and end of each; every start is before its end."""

    track: Ints
    start: Ints
    end: Ints


@dataclass(frozen=True, eq=False)
class Tree:
    """The tree of intervals. `order` has the intervals track by track, each before those inside it; `depth` and
    `parent` (-1: none) are in that order, and parents are places in it.
    """

    order: Ints
    depth: Ints
    parent: Ints


def crossed_tracks(intervals: Intervals) -> Ints:
    """The tracks in which intervals do not nest."""
    return _Edges(intervals).crossed_tracks()


def nest(intervals: Intervals, guessed: Bools) -> tuple[Ints, Tree]:
    """Ends with which the intervals nest, and their tree. If an interval that began earlier ends within another, the
    other is cut to end with it. First only intervals whose ends are `guessed` are cut; mostly that suffices, and they
    are few.
    """
    edges, end = _Edges(intervals), intervals.end
    for only in (guessed, None):
        crossed = edges.crossed_tracks()
        if len(crossed):
            which = np.isin(intervals.track, crossed) & (True if only is None else only)
            end = edges.trimmed(which)
            edges = _Edges(Intervals(intervals.track, intervals.start, end))
    return end, _tree(edges)


def _tree(edges: _Edges) -> Tree:
    order = edges.in_order
    depth = edges.depth_before[order]
    count = len(order)
    rank = np.arange(count)
    keys = np.sort(depth * count + rank)
    # The parent is the last interval before that is one level higher: in this order no other can lie between.
    above = np.searchsorted(keys, (depth - 1) * count + rank) - 1
    return Tree(order, depth, np.where(depth > 0, keys[above] % max(count, 1), -1))


def first_at_least(values: Ints, after: Ints, least: Ints) -> Ints:
    """The first place behind each of `after` with a value of at least `least`; len(values) if there is none.

    This is a tournament over blocks of 2, 4, 8 ... values: it goes up until a block has such a value, then down to it.
    """
    if not len(values) or not len(after):
        return np.full(len(after), len(values), np.int64)
    levels = _maxima(values)
    at = after + 1
    height = np.full(len(at), len(levels), np.int64)
    for level, maxima in enumerate(levels):
        odd = (height == len(levels)) & (at & 1 == 1)
        hit = odd & (maxima[np.minimum(at, len(maxima) - 1)] >= least) & (at < len(maxima))
        height[hit] = level
        searching = height == len(levels)
        at[searching] = (at[searching] + 1) >> 1  # an even place's parent begins with it; an odd one was looked at
    top = len(levels) - 1
    root = (height > top) & (at == 0) & (levels[top][0] >= least)
    height[root] = top
    none = height > top
    for level in range(top, 0, -1):
        going = ~none & (height >= level)
        at[going] *= 2
        left = levels[level - 1][np.minimum(at, len(levels[level - 1]) - 1)]
        at[going & (left < least)] += 1
    at[none] = len(values)
    return at


def _maxima(values: Ints) -> list[Ints]:
    """`values`, then the maxima of each two, of each four and so on, up to one number. All are padded to a power of
    two.
    """
    size = 1 << max(len(values) - 1, 0).bit_length()
    levels = [np.concatenate([values, np.full(size - len(values), np.iinfo(np.int64).min)])]
    while len(levels[-1]) > 1:
        levels.append(np.maximum(levels[-1][::2], levels[-1][1::2]))
    return levels


class _Edges:
    """Starts and ends of intervals, in the order in which they come on each track.

    If several are at one place, ends come before starts, inner ends before outer ones, outer starts before inner ones.
    """

    def __init__(self, intervals: Intervals) -> None:
        self._intervals = intervals
        count = len(intervals.track)
        by_start = np.lexsort((-intervals.end, intervals.start))
        edges = np.concatenate([by_start[::-1], by_start])
        is_start = np.repeat([0, 1], count)
        place = np.concatenate([intervals.end[by_start[::-1]], intervals.start[by_start]])
        place -= place.min(initial=0)
        key = (intervals.track[edges] * (place.max(initial=0) + 1) + place) * 2 + is_start
        order = np.argsort(key, kind="stable")
        self._edges, self._is_start = edges[order], is_start[order] == 1
        step = np.where(self._is_start, 1, -1)
        running = np.cumsum(step)
        self.in_order = self._edges[self._is_start]
        self._at_start, self._at_end = np.empty(count, np.int64), np.empty(count, np.int64)
        self._at_start[self.in_order] = np.flatnonzero(self._is_start)
        self._at_end[self._edges[~self._is_start]] = np.flatnonzero(~self._is_start)
        self.depth_before = running[self._at_start] - 1
        self.depth_after = running[self._at_end]

    def crossed_tracks(self) -> Ints:
        # At the first end that is not that of the innermost interval, the depths differ.
        found: Ints = np.unique(self._intervals.track[self.depth_before != self.depth_after])
        return found

    def trimmed(self, which: Bools) -> Ints:
        """Each interval's end, or if it is one of `which`, the first end of an interval that began before it, if that
        is earlier.
        """
        end = self._intervals.end.copy()
        mine = np.flatnonzero(which)
        began = self._at_start[self._edges]
        first = first_at_least(-began, self._at_start[mine], 1 - self._at_start[mine])
        early = first < self._at_end[mine]
        end[mine[early]] = end[self._edges[first[early]]]
        return end
