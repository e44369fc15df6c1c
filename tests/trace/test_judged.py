# SPDX-License-Identifier: LGPL-2.1-or-later
"""The calls in which anomalies are looked for are the same by a trace's flow and by its index; of calls of a random
machine, whose depths and callers it knows."""

from __future__ import annotations

import numpy as np
import pytest

from gilk.trace import call_index
from gilk.trace.about import Tally
from gilk.trace.anomalies import find_among
from gilk.trace.flow import Flow
from gilk.trace.flow_build import build
from gilk.trace.judged import judged_flow, judged_index
from tests.trace.machine import about, nested, run, samples


def flow_of(seed: int) -> Flow:
    return build(samples(run(seed, 3000, threads=3).records), about(), Tally())


@pytest.mark.parametrize("seed", range(6))
def test_an_index_has_the_calls_of_the_flow(seed: int) -> None:
    flow = flow_of(seed)
    by_flow, by_index = judged_flow(flow), judged_index(call_index.of_flow(flow))
    for name in ("duration", "parent", "depth", "state"):
        assert np.array_equal(getattr(by_flow, name), getattr(by_index, name)), name
    for name in ("of", "parent", "calls", "total", "own"):
        assert np.array_equal(getattr(by_flow.paths, name), getattr(by_index.paths, name)), name
    for number in range(0, len(by_flow.duration), 37):
        mine, theirs = by_index.described(number), by_flow.described(number)
        assert mine == {member: theirs[member] for member in mine}
    assert find_among(by_flow, 1) == find_among(by_index, 1)


def test_callers_and_depths_are_those_of_the_calls() -> None:
    records = nested(("a", 100, ("b", 10, ("c", 5)), ("b", 20)), ("a", 50, ("d", 5)))
    flow = build(samples(records), about(), Tally())
    calls = judged_index(call_index.of_flow(flow))
    named = [calls.described(number)["function"] for number in range(len(calls.duration))]
    assert named == ["a", "b", "c", "b", "a", "d"]
    assert calls.parent.tolist() == [-1, 0, 1, 0, -1, 4]
    assert calls.depth.tolist() == [0, 1, 2, 1, 0, 1]


def test_nothing_is_found_where_there_are_no_calls() -> None:
    flow = build(samples([]), about(), Tally())
    assert find_among(judged_flow(flow)) == find_among(judged_index(call_index.of_flow(flow))) == []
