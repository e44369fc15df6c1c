# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds calls that are unlike their siblings: the calls of the same path, from the outermost function down.

Time: a call is slow if it takes longer than the median of its siblings by more than `SPREAD` times their spread, by
more than `FACTOR` times and by more than `least`. The spread is the median of their distances from the median, times
1.4826, which is the standard deviation of a normal distribution (Hampel 1974); one call out of many does not move
either. The excess of a slow call is blamed on those of its callees that are slow as well; the rest of it is its own.

Calls: a call is odd if the functions that it called, or how often, or in which order, are so in few of its siblings
(one in twenty, at most) and otherwise in most (three in four, at least). A call that has not ended is odd among
siblings that have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from gilk.trace.flow import STATES, CallState, Flow
from gilk.trace.judged import JudgedCalls, judged_flow
from gilk.trace.nesting import Bools, Ints
from gilk.trace.paths import Paths, Symbol, label
from gilk.values import dataclass

SPREAD, FACTOR = 6.0, 2.0
_NORMAL = 1.4826
_FEW, _MOST = 0.05, 0.75
_FEWEST = 8  # the fewest siblings by which a call is judged
_WHOLE, _OPEN, _LEFT = (STATES.index(each) for each in (CallState.WHOLE, CallState.OPEN, CallState.LEFT))
_TOO_MANY = 200_000  # the most callees of a call that are named


@dataclass(frozen=True)
class Finding:
    """An odd call, by number, and what is odd about it. `sort` is `unfinished`, `slow`, `left` or `calls`;
    `weight`, in ns, is what it may have cost; `own` is the part of `weight` that no callee explains.
    """

    sort: str
    row: int
    path: tuple[Symbol, ...]
    siblings: int
    weight: int
    own: int
    why: str


def find(flow: Flow, least: int = 1000) -> list[Finding]:
    """The findings in a flow, as find_among()."""
    return find_among(judged_flow(flow), least)


def find_among(calls: JudgedCalls, least: int = 1000) -> list[Finding]:
    """The findings, in this order: calls that did not end, then by `own`, then by `weight`, the largest first.

    `least` is the number of ns by which a slow call exceeds the median, at least.
    """
    if not len(calls.duration):
        return []
    search = _Search(calls, least)
    found = [*search.unfinished(), *search.slow(), *search.odd()]
    order = {"unfinished": 0}
    return sorted(found, key=lambda each: (order.get(each.sort, 1), -each.own, -each.weight, each.row))


class _Search:
    def __init__(self, calls: JudgedCalls, least: int) -> None:
        self._paths, self._least = calls.paths, least
        self._duration, self._parent, self._depth, self._state = calls.duration, calls.parent, calls.depth, calls.state
        self._ended = self._state == _WHOLE
        paths = calls.paths
        self._by_path = np.argsort(paths.of, kind="stable")
        self._edges = np.searchsorted(paths.of[self._by_path], np.arange(len(paths.parent) + 1))
        self._median, self._limit = self._expected()

    def _rows(self, path: int) -> Ints:
        """The calls of a path, in order of rows."""
        return self._by_path[self._edges[path] : self._edges[path + 1]]

    def _expected(self) -> tuple[Ints, Ints]:
        """The median of each path's durations, and the longest duration that is not slow; paths with too few siblings
        have no limit.
        """
        count = len(self._paths.parent)
        median, limit = np.zeros(count, np.int64), np.full(count, np.iinfo(np.int64).max)
        for path in np.flatnonzero(self._paths.calls >= _FEWEST).tolist():
            rows = self._rows(path)
            times = self._duration[rows[self._ended[rows]]]
            if len(times) < _FEWEST:
                continue
            middle = float(np.median(times))
            spread = float(np.median(np.abs(times - middle))) * _NORMAL
            median[path] = middle
            limit[path] = max(middle + SPREAD * spread, middle * FACTOR, middle + self._least)
        return median, limit

    def _slow(self) -> Bools:
        known = self._ended | (self._state == _OPEN) | (self._state == _LEFT)
        slow: Bools = known & (self._duration > self._limit[self._paths.of])
        return slow

    def slow(self) -> Iterator[Finding]:
        """The findings about durations; the excess of a slow callee is subtracted from that of its caller."""
        slow = self._slow()
        rows = np.flatnonzero(slow)
        excess = np.where(slow, self._duration - self._median[self._paths.of], 0)
        # A call between two slow ones that has too few siblings to be slow itself passes the blame on.
        blamed = excess.astype(np.float64)
        for row in self._above(rows):
            total = self._inner(row, blamed)
            if not slow[row]:
                blamed[row] = total
        for row in rows.tolist():
            inner = min(self._inner(row, blamed), float(excess[row]))
            path, weight = int(self._paths.of[row]), int(excess[row])
            middle = int(self._median[path])
            yield self._finding("slow", row, weight, int(weight - inner), self._why_slow(row, middle, blamed))

    def _above(self, rows: Ints) -> list[int]:
        """All callers of `rows`, callees before callers."""
        found: set[int] = set()
        for row in rows.tolist():
            row = int(self._parent[row])
            while row >= 0 and row not in found:
                found.add(row)
                row = int(self._parent[row])
        return sorted(found, reverse=True)

    def _children(self, row: int) -> Ints:
        """The callees of a call. All calls within it follow it, as long as they are deeper."""
        depth = self._depth
        stop = row + 1
        step = 64
        while stop < len(depth):
            part = depth[stop : stop + step] <= depth[row]
            if part.any():
                stop += int(part.argmax())
                break
            stop += len(part)
            step *= 2
        inside = np.arange(row + 1, min(stop, len(depth)))
        found: Ints = inside[depth[inside] == depth[row] + 1]
        return found

    def _inner(self, row: int, blamed: NDArray[np.float64]) -> float:
        return float(blamed[self._children(row)].sum())

    def _why_slow(self, row: int, middle: int, blamed: NDArray[np.float64]) -> str:
        factor = self._duration[row] / max(middle, 1)
        times = f"{factor:.3g} times the median" if factor < 999.5 else f"{factor:,.0f} times the median"
        children = self._children(row)
        if len(children) and blamed[children].max() > 0:
            worst = int(children[blamed[children].argmax()])
            return f"{times}, because of {label(self._symbol(worst))}"
        return f"{times}, in the function itself" if not len(children) else f"{times}, in itself or in more calls"

    def unfinished(self) -> Iterator[Finding]:
        """The innermost calls that did not end, on paths of which other calls did."""
        under_way = np.flatnonzero(self._state == _OPEN)
        outer = set(self._parent[under_way].tolist())
        for row in under_way.tolist():
            rows = self._rows(int(self._paths.of[row]))
            ended = int(self._ended[rows].sum())
            if row not in outer and ended >= 1 and ended >= _MOST * len(rows):
                weight = max(0, int(self._duration[row] - np.median(self._duration[rows[self._ended[rows]]])))
                yield self._finding("unfinished", row, weight, weight, f"it did not return, {ended} others did")

    def odd(self) -> Iterator[Finding]:
        """The findings about calls with unusual callees, and about calls that did not return."""
        made = _Made(self._parent, self._paths)
        for path in np.flatnonzero(self._paths.calls >= _FEWEST).tolist():
            rows = self._rows(path)
            usual, few = self._usual(made.marks[rows])
            for row in rows[np.isin(made.marks[rows], few)].tolist():
                like = int(rows[made.marks[rows] == usual][0])
                why = made.difference(self._named(row), self._named(like))
                yield self._finding("calls", row, self._excess(row, path), 0, why)
            left = self._state[rows] == _LEFT
            if 0 < left.sum() <= max(1, _FEW * len(rows)):
                for row in rows[left].tolist():
                    why = f"it was left without a return, {int(self._ended[rows].sum())} others returned"
                    yield self._finding("left", row, self._excess(row, path), 0, why)

    def _usual(self, marks: Ints) -> tuple[int, Sequence[int]]:
        """The mark that most calls have, and those that few have; no such marks if no mark is that of most calls."""
        counts = Counter(marks.tolist())
        usual, number = counts.most_common(1)[0]
        if number < _MOST * len(marks):
            return usual, ()
        return usual, [mark for mark, n in counts.items() if n <= max(1, _FEW * len(marks)) and mark != usual]

    def _named(self, row: int) -> list[str]:
        return [label(self._symbol(int(child))) for child in self._children(row)[:_TOO_MANY]]

    def _excess(self, row: int, path: int) -> int:
        return max(0, int(self._duration[row] - self._median[path]))

    def _symbol(self, row: int) -> Symbol:
        return self._paths.symbols[int(self._paths.symbol[self._paths.of[row]])]

    def _finding(self, sort: str, row: int, weight: int, own: int, why: str) -> Finding:
        path, symbols = int(self._paths.of[row]), []
        siblings = int(self._paths.calls[path]) - 1
        while path >= 0:
            symbols.append(self._paths.symbols[int(self._paths.symbol[path])])
            path = int(self._paths.parent[path])
        return Finding(sort, row, tuple(reversed(symbols)), siblings, weight, own, why)


class _Made:
    """The callees of each call as one number: two numbers are equal if the functions, their order and, but for
    repetitions, their numbers are equal.

    A function called several times in a row counts as once, since loops run as long as there is work.
    """

    def __init__(self, parent: Ints, paths: Paths) -> None:
        callee = np.flatnonzero(parent >= 0)
        order = callee[np.argsort(parent[callee], kind="stable")]
        symbol = paths.symbol[paths.of[order]]
        fresh = np.append(True, (parent[order][1:] != parent[order][:-1]) | (symbol[1:] != symbol[:-1]))[: len(order)]
        order, symbol = order[fresh], symbol[fresh]
        place = np.arange(len(order)) - np.searchsorted(parent[order], parent[order])
        mixed = _mixed(symbol.astype(np.uint64) + np.uint64(1), place.astype(np.uint64))
        marks = np.zeros(len(parent), np.uint64)
        np.add.at(marks, parent[order], mixed)
        self.marks: Ints = marks.view(np.int64)

    @staticmethod
    def difference(made: list[str], usual: list[str]) -> str:
        """The difference between two lists of callees, in words."""
        here, there = Counter(made), Counter(usual)
        more = [name for name in here if name not in there]
        less = [name for name in there if name not in here]
        parts = [f"it calls {', '.join(more[:3])}, which others do not"] if more else []
        parts += [f"it does not call {', '.join(less[:3])}, which others do"] if less else []
        return "; ".join(parts) or "it calls the same functions in another order"


def _mixed(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of two columns (splitmix64)."""
    with np.errstate(over="ignore"):
        x = a * np.uint64(0x9E3779B97F4A7C15) + (b + np.uint64(1)) * np.uint64(0xD1B54A32D192ED03)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        found: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return found
