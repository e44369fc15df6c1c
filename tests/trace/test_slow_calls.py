# SPDX-License-Identifier: LGPL-2.1-or-later
"""The slow calls of a function, and what is different in them: of calls whose times are known, and of those of a random
machine, counted one by one."""

from __future__ import annotations

import pytest

from gilk.trace.about import Tally
from gilk.trace.flow import Flow
from gilk.trace.flow_build import build
from gilk.trace.slow_calls import slow_calls
from tests.trace.machine import about, nested, run, samples
from tests.trace.test_flow import assert_balanced


def functions(flow: Flow) -> list[str]:
    found: list[str] = flow.table["function"].to_pylist()
    return found


def test_slow_calls_are_compared_with_the_others_by_path() -> None:
    records = nested(
        ("f", 1000, ("g", 600, ("h", 500)), ("g", 100)), ("x", 5000, ("f", 100, ("g", 20)), ("f", 200, ("k", 50))),
    )  # fmt: skip
    flow = build(samples(records), about(), Tally())
    found = slow_calls(flow, flow.is_named("function", "f"), 500)
    assert (found.count, found.others, found.longest, found.unknown) == (1, 2, 2200, 0)
    assert functions(found.slow) == ["f", "g", "h", "g"]
    told = [("".join(symbol[0] for symbol in each.path), each.calls, each.own) for each in found.paths]
    assert told == [
        ("f", (1.0, 1.0), (1000.0, 150.0)), ("fg", (2.0, 0.5), (700.0, 10.0)), ("fgh", (1.0, 0.0), (500.0, 0.0)),
    ]  # fmt: skip


def test_a_call_within_another_one_belongs_to_that() -> None:
    flow = build(samples(nested(("f", 900, ("g", 800, ("f", 700))), ("f", 10))), about(), Tally())
    found = slow_calls(flow, flow.is_named("function", "f"), 600)
    assert (found.count, found.others, functions(found.slow)) == (1, 1, ["f", "g", "f"])


def test_there_may_be_no_such_calls() -> None:
    flow = build(samples(nested(("f", 900))), about(), Tally())
    assert slow_calls(flow, flow.is_named("function", "g"), 1).count == 0
    whole = slow_calls(flow, flow.is_named("function", "f"), 1)
    assert (whole.count, whole.others) == (1, 0)
    empty = build(samples([]), about(), Tally())
    assert slow_calls(empty, empty.is_named("function", "f"), 1).paths == ()


@pytest.mark.parametrize("seed", range(6))
def test_calls_of_a_random_machine_are_those_that_are_counted(seed: int) -> None:
    flow = build(samples(run(seed, 2000, threads=3).records), about(), Tally())
    rows = flow.table.to_pylist()
    name = max(set(functions(flow)), key=functions(flow).count)

    def outer(number: int) -> int | None:
        """The outermost call of the function around a call, itself included."""
        found, at = None, number
        while at >= 0:
            found, at = at if rows[at]["function"] == name else found, rows[at]["parent"]
        return found

    around = [outer(number) for number in range(len(rows))]
    roots = [number for number, found in enumerate(around) if found == number]
    whole = [number for number in roots if rows[number]["state"] == "whole"]
    threshold = sorted(rows[number]["duration"] for number in whole)[len(whole) // 2]
    slow = {number for number in whole if rows[number]["duration"] >= threshold}
    found = slow_calls(flow, flow.is_named("function", name), threshold)
    assert (found.count, found.others) == (len(slow), len(whole) - len(slow))
    assert found.unknown == len(roots) - len(whole)
    wanted = [row["function"] for row, of in zip(rows, around, strict=True) if of in slow]
    assert functions(found.slow) == wanted and len(wanted) >= len(slow) > 0
    assert_balanced(found.slow)
    assert sum(each.own[0] for each in found.paths) * found.count <= sum(rows[n]["duration"] for n in slow) + 1
