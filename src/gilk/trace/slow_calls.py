# SPDX-License-Identifier: LGPL-2.1-or-later
"""The slow calls of a function in a trace: what happens in these, and what is different in its other calls.

A call within another call of the function belongs to that. Calls whose ends are not both known are left out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from gilk.trace.flow import CallState, Flow
from gilk.trace.nesting import Bools, Ints, rows_by_depth
from gilk.trace.paths import Symbol, of_flow
from gilk.values import dataclass

Path = tuple[Symbol, ...]


@dataclass(frozen=True)
class SlowPath:
    """A path from the function down, with the means of its slow calls and of the others: how many calls a call of the
    function makes there, and the time in ns in the last function itself."""

    path: Path
    calls: tuple[float, float]
    own: tuple[float, float]

    @property
    def excess(self) -> float:
        """The time in ns that a slow call spends there beyond another one."""
        return self.own[0] - self.own[1]


@dataclass(frozen=True, eq=False)
class SlowCalls:
    """``slow`` has the slow calls, of which there are ``count``, as outermost calls with all that they called.
    ``paths`` are those on which they spend more time than the ``others``, of which there are so many, the gravest
    first. ``longest``: the longest time of a call in ns. ``unknown``: how many calls are left out."""

    slow: Flow
    count: int
    others: int
    longest: int
    unknown: int
    paths: tuple[SlowPath, ...]


def slow_calls(flow: Flow, of_function: Bools, threshold: int) -> SlowCalls:
    """The calls that take ``threshold`` ns or longer. ``of_function``: a mask of the calls of the function."""
    roots = _outermost(flow, of_function)
    known = flow.is_state(CallState.WHOLE)[roots]
    whole, duration = roots[known], flow.column("duration")
    is_slow = duration[whole] >= threshold
    slow, others = _within(flow, whole[is_slow]), _within(flow, whole[~is_slow])
    counts = int(is_slow.sum()), int((~is_slow).sum())
    longest = int(duration[whole].max()) if len(whole) else 0
    return SlowCalls(slow, *counts, longest, len(roots) - len(whole), _compared((slow, others), counts))


def _outermost(flow: Flow, chosen: Bools) -> Ints:
    """The chosen calls that are not within another chosen call."""
    depth, parent = flow.column("depth"), flow.column("parent")
    inside = np.zeros(len(depth), np.bool_)
    for rows in rows_by_depth(depth):
        above = parent[rows]
        inside[rows] = np.where(above >= 0, inside[above] | chosen[above], False)
    return np.flatnonzero(chosen & ~inside)


def _within(flow: Flow, roots: Ints) -> Flow:
    """The calls ``roots``, as outermost calls, and all within them."""
    depth, parent = flow.column("depth"), flow.column("parent")
    root = np.full(len(depth), -1, np.int64)
    root[roots] = roots
    for rows in rows_by_depth(depth):
        above = parent[rows]
        root[rows] = np.where(root[rows] >= 0, root[rows], np.where(above >= 0, root[above], -1))
    kept = root >= 0
    place = np.cumsum(kept) - 1
    inner = kept & (root != np.arange(len(root)))
    moved = np.where(inner, place[parent], -1)[kept]
    table = flow.table.filter(pa.array(kept))
    for name, values, kind in (
        ("parent", moved, pa.int64()), ("depth", (depth - depth[root])[kept], pa.int32()),
    ):  # fmt: skip
        table = table.set_column(table.column_names.index(name), name, pa.array(values, kind))
    return replace(flow, table=table)


def _compared(flows: tuple[Flow, Flow], counts: tuple[int, int]) -> tuple[SlowPath, ...]:
    slow, others = (_means(flow, count) for flow, count in zip(flows, counts, strict=True))
    found = [SlowPath(path, *zip(means, others.get(path, (0.0, 0.0)), strict=True)) for path, means in slow.items()]
    grave = [each for each in found if each.excess > 0]
    return tuple(sorted(grave, key=lambda each: (-each.excess, each.path)))


def _means(flow: Flow, count: int) -> dict[Path, tuple[float, float]]:
    """The calls, and the ns in the last function itself, of each path, by call of the function."""
    paths, found, known = of_flow(flow), dict[Path, tuple[float, float]](), list[Path]()
    for number, (parent, symbol) in enumerate(zip(paths.parent.tolist(), paths.symbol.tolist(), strict=True)):
        above = known[parent] if parent >= 0 else ()
        known.append((*above, paths.symbols[symbol]))
        found[known[number]] = paths.calls[number] / count, paths.own[number] / count
    return found
