# SPDX-License-Identifier: LGPL-2.1-or-later
"""The calling contexts of an index: calls with the same functions around them are one node."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from gilk.trace.call_index import PART, CallIndex, around
from gilk.trace.flow import STATES, CallState
from gilk.trace.nesting import Ints
from gilk.values import dataclass

MOST = 1 << 20  # the most nodes; the time of calls that lie deeper is only in that of their callers
_DENSE = 1 << 22  # keys below this are counted in a table with a place for each
_OPEN = STATES.index(CallState.OPEN)


@dataclass(frozen=True, eq=False)
class ContextTree:
    """A tree of calling contexts. By node: ``parent`` (-1: none; always less than the node's own number), ``symbol``,
    ``track`` (-1 if threads are joined), ``calls``, ``total`` and ``own`` times in ns, and ``open``, the number of its
    calls under way at the end. ``cut`` is the number of calls that lie too deep to have a node.
    """

    parent: Ints
    symbol: Ints
    track: Ints
    calls: Ints
    total: Ints
    own: Ints
    open: Ints
    cut: int

    @cached_property
    def _by_parent(self) -> tuple[Ints, Ints]:
        order = np.lexsort((-self.total, self.parent))
        return order, np.searchsorted(self.parent[order], np.arange(-1, len(self.parent) + 1))

    def children(self, node: int) -> Ints:
        """The children of a node, or for -1 the roots; those with the most time first."""
        order, edges = self._by_parent
        return order[edges[node + 1] : edges[node + 2]]

    def path(self, node: int) -> list[int]:
        """The nodes from the root to this one."""
        found = []
        while node >= 0:
            found.append(node)
            node = int(self.parent[node])
        return found[::-1]


def by_thread(index: CallIndex) -> ContextTree:
    return _Growing(index, apart=True).tree()


def of_all_threads(index: CallIndex) -> ContextTree:
    return _Growing(index, apart=False).tree()


class _Growing:
    """Builds a tree row by row, all tracks at a depth at once; only the nodes of the calls of the row above are
    remembered.
    """

    def __init__(self, index: CallIndex, apart: bool) -> None:
        self._index, self._apart = index, apart
        self._width = len(index.symbols)
        self._parts: dict[str, list[Ints]] = {
            name: [] for name in ("parent", "symbol", "track", "calls", "total", "own", "open")
        }
        self._count, self._cut = 0, 0

    def tree(self) -> ContextTree:
        tracks, first = self._index.tracks, self._index.first_rows
        above: dict[int, Ints] = {}
        for depth in range(max((track.rows for track in tracks), default=0)):
            rows = {number: int(first[number]) + depth for number, track in enumerate(tracks) if depth < track.rows}
            keys = {number: self._keys(row, number, depth, above.get(number)) for number, row in rows.items()}
            above = self._grown(rows, keys, depth)
        joined = {name: np.concatenate([np.empty(0, np.int64), *parts]) for name, parts in self._parts.items()}
        return ContextTree(**joined, cut=self._cut)

    def _keys(self, row: int, track: int, depth: int, above: Ints | None) -> Ints:
        """The node of each call's caller and the call's symbol in one number, for the calls of a row; -1 if the caller
        has no node.
        """
        symbol = self._index.columns["symbol"][self._places(row)].astype(np.int64)
        if not depth:
            return symbol + track * self._width if self._apart else symbol
        assert above is not None
        node = above[self._around(row)]
        return np.where(node >= 0, node * self._width + symbol, -1)

    def _places(self, row: int) -> slice:
        return slice(int(self._index.first[row]), int(self._index.first[row + 1]))

    def _around(self, row: int) -> Ints:
        """The caller of each call of a row, counted from the first call of the row above."""
        parts = around(self._index.columns, self._places(row - 1), self._places(row))
        return np.concatenate([found for _, found in parts])

    def _grown(self, rows: dict[int, int], keys: dict[int, Ints], depth: int) -> dict[int, Ints]:
        """Add nodes for the calls of ``rows``; returns the node of each call, by track."""
        distinct = _distinct(keys.values())
        full = self._count + len(distinct) > MOST
        self._cut += sum(int(np.count_nonzero((each < 0) | full)) for each in keys.values())
        if full:
            return {track: np.full(len(each), -1, np.int64) for track, each in keys.items()}
        sums = {name: np.zeros(len(distinct), np.int64) for name in ("calls", "total", "own", "open")}
        nodes = {}
        for track, mine in keys.items():
            place = _placed(distinct, mine)
            nodes[track] = np.where(mine >= 0, place + self._count, -1)
            self._add(sums, self._places(rows[track]), mine, place)
        parent, symbol = distinct // self._width, distinct % self._width
        if depth:
            track_of = np.concatenate(self._parts["track"])[parent]
        else:
            track_of = parent if self._apart else np.full(len(distinct), -1)
            parent = np.full(len(distinct), -1)
        for name, values in {"parent": parent, "symbol": symbol, "track": track_of, **sums}.items():
            self._parts[name].append(values.astype(np.int64))
        self._count += len(distinct)
        return nodes

    def _add(self, sums: dict[str, Ints], places: slice, keys: Ints, place: Ints) -> None:
        columns, count = self._index.columns, len(sums["calls"])
        kept = keys >= 0
        at = place[kept]
        if not len(at):
            return
        sums["calls"] += np.bincount(at, minlength=count)
        for name, column in (("total", "duration"), ("own", "self")):
            sums[name] += np.bincount(at, columns[column][places][kept], count).astype(np.int64)
        running = columns["state"][places][kept] == _OPEN
        sums["open"] += np.bincount(at[running], minlength=count)


def _distinct(keys: Iterable[Ints]) -> Ints:
    """The different keys in ascending order, without -1."""
    found = np.empty(0, np.int64)
    for each in keys:
        for first in range(0, len(each), PART):
            part = each[first : first + PART]
            most = int(part.max(initial=-1))
            if most < _DENSE:
                used = np.flatnonzero(np.bincount(part[part >= 0], minlength=1))
            else:
                used = np.unique(part[part >= 0])
            found = np.union1d(found, used)
    return found.astype(np.int64)


def _placed(distinct: Ints, keys: Ints) -> Ints:
    """The place of each key in ``distinct``; any number for -1."""
    if len(distinct) and distinct[-1] < _DENSE:
        table = np.zeros(int(distinct[-1]) + 1, np.int64)
        table[distinct] = np.arange(len(distinct))
        return table[keys]
    return np.minimum(np.searchsorted(distinct, keys), max(len(distinct) - 1, 0))
