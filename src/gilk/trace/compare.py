# SPDX-License-Identifier: LGPL-2.1-or-later
"""The differences between two traces of the same work: in calls, in their order, in how they end and in time.

Threads are compared in pairs, of one name, in the order in which they appear. In a pair, the callees of two matching
calls are aligned: first equal trees, then, between those, calls of one function. Calls of one function that are left on
both sides have changed their place.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import field

import numpy as np

from gilk.trace.align import align
from gilk.trace.compare_tree import NONE, CallTree, threads
from gilk.trace.flow import STATES, CallState, Flow
from gilk.trace.paths import Paths, Symbol, of_flow, symbols_of
from gilk.values import dataclass

Path = tuple[Symbol, ...]
_OPEN = STATES.index(CallState.OPEN)
_WHOLE = STATES.index(CallState.WHOLE)


@dataclass(frozen=True)
class Unfinished:
    """An innermost call of a thread that was under way when one trace, `side` ("A" or "B"), stopped, and not in the
    other. `duration` is in ns; `other` is its state in the other trace, '' if it is not there.
    """

    side: str
    thread: str
    path: Path
    duration: int
    other: str


@dataclass(frozen=True)
class Extra:
    """Calls of a path that only one trace has: `calls` is their number, `within` that of the calls inside of them."""

    thread: str
    path: Path
    calls: int
    within: int


@dataclass(frozen=True)
class Moved:
    """Callees of `path` that come in another order; `a` and `b` are the functions around the first one that has moved,
    in each trace.
    """

    thread: str
    path: Path
    calls: int
    a: tuple[Symbol, ...]
    b: tuple[Symbol, ...]


@dataclass(frozen=True)
class Ending:
    """Calls of a path that end differently: `a` and `b` are the states in A and in B."""

    thread: str
    path: Path
    a: str
    b: str
    calls: int


@dataclass(frozen=True)
class Timing:
    """The number of the calls of a path whose times are known, in all threads, and the sum of their times in ns; each
    in A and in B.
    """

    path: Path
    calls: tuple[int, int]
    total: tuple[int, int]

    @property
    def change(self) -> float:
        """The time in ns by which the calls in B took longer than as many calls in A did."""
        return self.total[1] - self.total[0] * self.calls[1] / self.calls[0]

    @property
    def factor(self) -> float:
        mean = self.total[0] / self.calls[0]
        return (self.total[1] / self.calls[1]) / mean if mean else float("inf")


@dataclass
class Comparison:
    """All differences; the gravest of each sort come first. `ignored`: functions that one trace ceased to follow."""

    unfinished: list[Unfinished] = field(default_factory=list)
    only_a: list[Extra] = field(default_factory=list)
    only_b: list[Extra] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    threads_a: list[str] = field(default_factory=list)
    threads_b: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether calls, order and endings are the same. Times never are."""
        lists = (self.unfinished, self.only_a, self.only_b, self.moved, self.endings, self.threads_a, self.threads_b)
        return not any(lists)


def compare(a: Flow, b: Flow) -> Comparison:
    """The differences of B from A."""
    ignored = {each.function for each in (*a.omitted, *b.omitted)}
    ignored |= {each.function for each in (*a.unfollowed, *b.unfollowed)}
    symbols = [s for s in dict.fromkeys([*symbols_of(a)[1], *symbols_of(b)[1]]) if s[0] not in ignored]
    numbers = {symbol: n for n, symbol in enumerate(symbols)}
    result = Comparison(ignored=sorted(ignored), timings=_timings(of_flow(a), of_flow(b)))
    pairs, alone_a, alone_b = _pairs(threads(a, numbers), threads(b, numbers))
    result.threads_a, result.threads_b = [t.thread for t in alone_a], [t.thread for t in alone_b]
    for one, other in pairs:
        _Threads(one, other, symbols, (a, b), result).compare()
    for extras in (result.only_a, result.only_b):
        extras.sort(key=lambda extra: (-extra.calls - extra.within, len(extra.path)))
    result.unfinished.sort(key=lambda each: -len(each.path))
    return result


def _pairs(
    a: list[CallTree], b: list[CallTree]
) -> tuple[list[tuple[CallTree, CallTree]], list[CallTree], list[CallTree]]:
    """The pairs of threads to compare, and the threads of A and of B that are left. Main threads are paired first, then
    threads of one name, then others, always if their outermost functions are the same; at last the main threads in any
    case.
    """
    found: list[tuple[CallTree, CallTree]] = []

    def key(thread: CallTree, rule: int) -> object:
        roots = frozenset(thread.symbol[call] for call in thread.roots)
        return ((thread.main, thread.thread, roots), (thread.thread, roots), roots, thread.main or None)[rule]

    for rule in range(4):
        waiting = defaultdict(list)
        for other in b:
            waiting[key(other, rule)].append(other)
        for one in list(a):
            if key(one, rule) is not None and waiting[key(one, rule)]:
                other = waiting[key(one, rule)].pop(0)
                found.append((one, other))
                a.remove(one)
                b.remove(other)
    return found, a, b


class _Threads:
    """The comparison of two threads."""

    def __init__(
        self, a: CallTree, b: CallTree, symbols: list[Symbol], flows: tuple[Flow, Flow], into: Comparison
    ) -> None:
        self._a, self._b, self._symbols, self._flows, self._into = a, b, symbols, flows, into
        self._other_of: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self._extra: tuple[Counter[tuple[int, ...]], Counter[tuple[int, ...]]] = (Counter(), Counter())
        self._within: tuple[Counter[tuple[int, ...]], Counter[tuple[int, ...]]] = (Counter(), Counter())
        self._endings: Counter[tuple[tuple[int, ...], int, int]] = Counter()
        self._moved: dict[tuple[int, ...], Moved] = {}

    def compare(self) -> None:
        waiting = [(NONE, NONE)]
        while waiting:
            waiting += self._children(*waiting.pop())
        into, name = self._into, self._a.thread
        for side, extras in enumerate((into.only_a, into.only_b)):
            for path, calls in self._extra[side].items():
                extras.append(Extra(name, self._named(path), calls, self._within[side][path]))
        into.moved += self._moved.values()
        for (path, a, b), calls in self._endings.items():
            into.endings.append(Ending(name, self._named(path), STATES[a], STATES[b], calls))
        into.unfinished += [*self._unfinished(0), *self._unfinished(1)]

    def _children(self, a: int, b: int) -> Iterator[tuple[int, int]]:
        """Align the callees of two matching calls; yields the pairs whose trees differ."""
        left, right = (t.roots if n == NONE else t.children[n] for t, n in ((self._a, a), (self._b, b)))
        pairs, alone_a, alone_b = self._aligned(left, right)
        turned = self._turned(alone_a, alone_b)
        if turned:
            self._note_moved(a, left, right, turned)
        for one, other in (*pairs, *turned):
            self._other_of[0][one], self._other_of[1][other] = other, one
            self._note_ending(one, other)
            if self._a.mark[one] != self._b.mark[other]:
                yield one, other
        moved_a, moved_b = {one for one, _ in turned}, {other for _, other in turned}
        self._note_extra(0, self._a, [n for n in alone_a if n not in moved_a])
        self._note_extra(1, self._b, [n for n in alone_b if n not in moved_b])

    def _aligned(self, left: list[int], right: list[int]) -> tuple[list[tuple[int, int]], list[int], list[int]]:
        """The pairs of calls that match, and those left on each side: equal trees first; between them, calls of one
        function.
        """
        alike = align([self._a.mark[n] for n in left], [self._b.mark[n] for n in right])
        pairs, alone_a, alone_b = [(left[i], right[j]) for i, j in alike], [], []
        edges = [(-1, -1), *alike, (len(left), len(right))]
        for (i, j), (k, m) in itertools.pairwise(edges):
            one, other = left[i + 1 : k], right[j + 1 : m]
            found = align([self._a.symbol[n] for n in one], [self._b.symbol[n] for n in other])
            pairs += [(one[x], other[y]) for x, y in found]
            taken, taken_too = {x for x, _ in found}, {y for _, y in found}
            alone_a += [n for x, n in enumerate(one) if x not in taken]
            alone_b += [n for y, n in enumerate(other) if y not in taken_too]
        return pairs, alone_a, alone_b

    def _turned(self, alone_a: list[int], alone_b: list[int]) -> list[tuple[int, int]]:
        """Pairs of calls of one function that are left on both sides."""
        waiting = defaultdict(list)
        for n in alone_b:
            waiting[self._b.symbol[n]].append(n)
        return [(n, waiting[self._a.symbol[n]].pop(0)) for n in alone_a if waiting[self._a.symbol[n]]]

    def _note_moved(self, caller: int, left: list[int], right: list[int], turned: list[tuple[int, int]]) -> None:
        path = self._a.path(caller) if caller != NONE else ()
        before = self._moved.get(path)
        one, other = left.index(turned[0][0]), right.index(turned[0][1])
        around = [
            tuple(self._symbols[calls.symbol[n]] for n in row[max(0, at - 3) : at + 4])
            for calls, row, at in ((self._a, left, one), (self._b, right, other))
        ]
        count = len(turned) + (before.calls if before else 0)
        a, b = (before.a, before.b) if before else around
        self._moved[path] = Moved(self._a.thread, self._named(path), count, a, b)

    def _note_ending(self, a: int, b: int) -> None:
        states = self._a.state[a], self._b.state[b]
        named = {STATES[state] for state in states}
        if len(named) > 1 and not named & {CallState.OPEN, CallState.BEFORE, CallState.CUT, CallState.CLOSED}:
            self._endings[(self._a.path(a), *states)] += 1

    def _note_extra(self, side: int, calls: CallTree, alone: list[int]) -> None:
        for n in alone:
            path = calls.path(n)
            self._extra[side][path] += 1
            self._within[side][path] += calls.size(n) - 1

    def _unfinished(self, side: int) -> Iterator[Unfinished]:
        """The innermost open calls whose counterparts are not open."""
        calls, other = ((self._a, self._b), (self._b, self._a))[side]
        duration = self._flows[side].column("duration")
        under_way = [n for n in np.flatnonzero(np.array(calls.state) == _OPEN).tolist() if calls.symbol[n] != NONE]
        outer = {calls.parent[n] for n in under_way}
        for n in under_way:
            match = self._other_of[side].get(n, NONE)
            if n in outer or (match == NONE and self._in_alike(side, n)):
                continue
            if match == NONE or other.state[match] != _OPEN:
                state = STATES[other.state[match]] if match != NONE else ""
                took = int(duration[calls.first + n])
                yield Unfinished("AB"[side], calls.thread, self._named(calls.path(n)), took, state)

    def _in_alike(self, side: int, call: int) -> bool:
        """Whether the call lies in a tree that is the same in both traces, whose calls were not matched one by one."""
        calls, other = ((self._a, self._b), (self._b, self._a))[side]
        while call != NONE and call not in self._other_of[side]:
            call = calls.parent[call]
        return call != NONE and calls.mark[call] == other.mark[self._other_of[side][call]]

    def _named(self, path: tuple[int, ...]) -> Path:
        return tuple(self._symbols[n] for n in path)


def _timings(a: Paths, b: Paths) -> list[Timing]:
    """The timings of paths that both traces have; the greatest change comes first."""
    found = []
    waiting: list[tuple[Path, list[int], list[int]]] = [((), a.roots, b.roots)]
    while waiting:
        above, left, right = waiting.pop()
        others = {b.symbols[int(b.symbol[n])]: n for n in right}
        for one in left:
            symbol = a.symbols[int(a.symbol[one])]
            if symbol not in others:
                continue
            other, path = others[symbol], (*above, symbol)
            calls, total = ((int(x[one]), int(y[other])) for x, y in ((a.calls, b.calls), (a.total, b.total)))
            found.append(Timing(path, calls, total))
            waiting.append((path, a.children[one], b.children[other]))
    return sorted(found, key=lambda timing: -abs(timing.change))
