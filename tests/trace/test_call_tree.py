# SPDX-License-Identifier: LGPL-2.1-or-later
"""The contexts of an index equal those that `paths.of_flow` finds among the calls of a whole flow."""

from __future__ import annotations

from typing import Any

import pytest

from gilk.trace import call_index, call_tree, flow_build, paths
from gilk.trace.about import Tally
from gilk.trace.call_tree import ContextTree
from gilk.trace.flow import CallState, Flow
from gilk.trace.paths import Symbol
from tests.trace.machine import about, nested, run, samples

Nodes = dict[tuple[Symbol, ...], tuple[int, int, int]]


def made(seed: int) -> Flow:
    return flow_build.build(run(seed, 2500, threads=3, kernel=seed % 2 == 1).samples(start=100), about(), Tally())


def nodes(tree: ContextTree, symbols: tuple[Symbol, ...], node: int = -1, above: tuple[Symbol, ...] = ()) -> Nodes:
    found: Nodes = {}
    for child in tree.children(node).tolist():
        path = (*above, symbols[int(tree.symbol[child])])
        found[path] = int(tree.calls[child]), int(tree.total[child]), int(tree.own[child])
        found |= nodes(tree, symbols, child, path)
    return found


def expected(flow: Flow) -> Nodes:
    whole, found = paths.of_flow(flow), {}
    for path in range(len(whole.parent)):
        symbols, at = [], path
        while at >= 0:
            symbols.append(whole.symbols[int(whole.symbol[at])])
            at = int(whole.parent[at])
        found[tuple(reversed(symbols))] = int(whole.calls[path]), int(whole.total[path]), int(whole.own[path])
    return found


@pytest.mark.parametrize("part", [7, 1 << 20])
@pytest.mark.parametrize("seed", range(6))
def test_contexts_of_all_threads_agree_with_the_flow(seed: int, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_index, "PART", part)
    monkeypatch.setattr(call_tree, "_DENSE", 1 << 22 if seed % 2 else 3)
    flow = made(seed)
    index = call_index.of_flow(flow)
    assert nodes(call_tree.of_all_threads(index), index.symbols) == expected(flow)


@pytest.mark.parametrize("seed", range(6))
def test_contexts_of_each_thread_agree_with_the_flow(seed: int) -> None:
    flow = made(seed)
    index = call_index.of_flow(flow)
    tree = call_tree.by_thread(index)
    assert int(tree.open.sum()) == flow.states[CallState.OPEN]
    for number, rows in enumerate(flow.tracks):
        mine: Any = {}
        for child in tree.children(-1).tolist():
            if tree.track[child] == number:
                symbol = index.symbols[int(tree.symbol[child])]
                mine[(symbol,)] = int(tree.calls[child]), int(tree.total[child]), int(tree.own[child])
                mine |= nodes(tree, index.symbols, child, (symbol,))
        assert mine == expected(flow.only_rows(rows))


def test_children_come_with_most_time_first() -> None:
    flow = flow_build.build(samples(nested(("a", 1, ("b", 5), ("c", 50), ("d", 20)))), about(), Tally())
    index = call_index.of_flow(flow)
    tree = call_tree.by_thread(index)
    (top,) = tree.children(-1).tolist()
    names = [index.symbols[int(tree.symbol[each])][0] for each in tree.children(top).tolist()]
    assert names == ["c", "d", "b"]
    assert [index.symbols[int(tree.symbol[each])][0] for each in tree.path(int(tree.children(top)[1]))] == ["a", "d"]


def test_contexts_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_tree, "MOST", 3)
    flow = flow_build.build(samples(nested(("a", 1, ("b", 5, ("c", 1), ("d", 2, ("a", 1)))))), about(), Tally())
    tree = call_tree.by_thread(call_index.of_flow(flow))
    assert (len(tree.parent), tree.cut) == (2, 3)


def test_a_trace_without_calls_has_no_contexts() -> None:
    flow = flow_build.build(run(0, 0).samples(), about(), Tally())
    tree = call_tree.by_thread(call_index.of_flow(flow))
    assert (len(tree.parent), tree.children(-1).tolist()) == (0, [])
