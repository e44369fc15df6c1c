# SPDX-License-Identifier: LGPL-2.1-or-later
"""The paths of calls: the functions from a thread's outermost call down. Calls of one path count as the same call
again.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gilk.trace.flow import KERNEL, CallState, Flow
from gilk.trace.nesting import Bools, Ints, rows_by_depth
from gilk.values import dataclass

Symbol = tuple[str, str, str]  # function, image, lane


@dataclass(frozen=True, eq=False)
class Paths:
    """The paths of calls. `of` has the number of each call's path.

    A path has a `parent` (-1 for none; always less than its own number), its last function, a number in `symbols`, and
    the number `calls` and the `total` and `own` times in ns of its calls.
    """

    of: Ints
    parent: Ints
    symbol: Ints
    symbols: tuple[Symbol, ...]
    calls: Ints
    total: Ints
    own: Ints

    @cached_property
    def children(self) -> list[list[int]]:
        """The paths that are one call longer than each path, in the order in which they came first."""
        found: list[list[int]] = [[] for _ in self.parent]
        for path, parent in enumerate(self.parent.tolist()):
            if parent >= 0:
                found[parent].append(path)
        return found

    @cached_property
    def roots(self) -> list[int]:
        return np.flatnonzero(self.parent < 0).tolist()

    def name(self, path: int) -> str:
        return self.symbols[int(self.symbol[path])][0]

    def functions(self, path: int) -> tuple[str, ...]:
        """The functions of a path, from the outermost to the last."""
        names = []
        while path >= 0:
            names.append(self.name(path))
            path = int(self.parent[path])
        return tuple(reversed(names))

    @cached_property
    def outermost(self) -> Bools:
        """A mask of the paths whose last function does not occur earlier in them. Calls of other paths lie within calls
        of the same function.
        """
        inside: list[bool] = []
        above: list[frozenset[int]] = []
        for parent, symbol in zip(self.parent.tolist(), self.symbol.tolist(), strict=True):
            before = above[parent] if parent >= 0 else frozenset()
            inside.append(symbol not in before)
            above.append(before if symbol in before else before | {symbol})
        return np.array(inside, np.bool_)


def of_flow(flow: Flow) -> Paths:
    """The paths of all calls, in all threads. A path comes before longer ones."""
    columns = (flow.column("depth"), flow.column("parent"), flow.column("duration"), flow.self_times)
    return of_columns(*symbols_of(flow), *columns)


def of_columns(
    symbol: Ints, symbols: tuple[Symbol, ...], depth: Ints, parent: Ints, duration: Ints, own: Ints
) -> Paths:
    """The paths of calls that are given by columns, by number: their symbols, depths, callers (-1 for none), durations,
    and times in themselves."""
    path = np.full(len(depth), -1, np.int64)
    parents: list[Ints] = []
    functions: list[Ints] = []
    made = 0
    for rows in rows_by_depth(depth):
        above = np.where(parent[rows] >= 0, path[parent[rows]], -1)
        keys, first, which = np.unique(above * len(symbols) + symbol[rows], return_index=True, return_inverse=True)
        in_order = np.argsort(first)
        number = np.empty(len(keys), np.int64)
        number[in_order] = np.arange(len(keys)) + made
        path[rows] = number[which]
        parents.append(above[first[in_order]])
        functions.append(symbol[rows][first[in_order]])
        made += len(keys)
    return Paths(
        *(path, _joined(parents), _joined(functions), symbols),
        calls=np.bincount(path, minlength=made),
        total=_sums(path, duration, made),
        own=_sums(path, own, made),
    )


def symbols_of(flow: Flow) -> tuple[Ints, tuple[Symbol, ...]]:
    """Each call's symbol, as a number, and the symbols."""
    function, image = flow.column("function").astype(np.int64), flow.column("image").astype(np.int64)
    lane = flow.column("lane").astype(np.int64)
    if not len(function):
        return np.empty(0, np.int64), ()
    function = _without_nulls(flow, function)
    keys, which = np.unique((function << 21 | image) << 1 | lane, return_inverse=True)
    names = [*flow.names("function"), "?"]
    images, lanes = flow.names("image"), flow.names("lane")
    found = tuple((names[key >> 22], images[key >> 1 & 0x1FFFFF], lanes[key & 1]) for key in keys.tolist())
    return which.astype(np.int64), found


def label(symbol: Symbol) -> str:
    """The name of a symbol as in flame graphs, which mark functions of the kernel."""
    return f"{symbol[0]}_[k]" if symbol[2] == KERNEL else symbol[0]


def whole(flow: Flow) -> Bools:
    """A mask of the calls whose durations are known."""
    return flow.is_state(CallState.WHOLE)


def _without_nulls(flow: Flow, codes: Ints) -> Ints:
    """The codes of functions; functions without a name have a code of their own."""
    missing = np.asarray(flow.table["function"].combine_chunks().is_null())
    return np.where(missing, len(flow.names("function")), codes)


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _sums(path: Ints, values: Ints, count: int) -> Ints:
    """The sums of the values by path. Exact up to 2**53 ns, 104 days."""
    return np.bincount(path, weights=values, minlength=count).astype(np.int64)
