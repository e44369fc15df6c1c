# SPDX-License-Identifier: LGPL-2.1-or-later
"""Figures of folds agree with a machine that keeps its own books, wherever its records are divided."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from gilk.trace.folding import Figures, Folding
from gilk.trace.traced import Omitted
from tests.trace.machine import Call, Machine, about, nested, run, samples

Record = tuple[int, int, int, str, str, str, int]


def booked(machine: Machine) -> dict[str, tuple[int, int, int]]:
    """Calls, total and own time of each function, from the machine's books."""
    calls, total, own = Counter[str](), Counter[str](), Counter[str]()
    for call in machine.calls:
        took = (machine.now if call.end is None else call.end) - call.start
        calls[call.function] += 1
        own[call.function] += took
        if call.parent is not None:
            own[call.parent.function] -= took
        if not within_itself(call):
            total[call.function] += took
    return {name: (calls[name], total[name], own[name]) for name in calls}


def within_itself(call: Call) -> bool:
    above = call.parent
    while above is not None and above.function != call.function:
        above = above.parent
    return above is not None


def figures(found: Figures) -> dict[str, tuple[int, int, int]]:
    return {row.function: (row.calls, row.total, row.own) for row in found.rows()}


def of_rows(folding: Folding, records: list[Record], until: int = 0) -> dict[str, tuple[int, int, int]]:
    folding.add(samples(records))
    folding.fold(until)
    return figures(folding.figures())


@pytest.mark.parametrize("seed", range(30))
def test_folded_figures_add_up_to_those_of_the_machine(seed: int) -> None:
    machine = run(seed, 500, threads=1 + seed % 3)
    places = sorted(random.Random(seed).sample(range(1, len(machine.records)), 12))
    folding, sum_of_all = Folding(about), Figures()
    for first, last in zip([0, *places], [*places, len(machine.records)], strict=True):
        folding.add(samples(machine.records[first:last]))
        folding.fold(machine.now if last == len(machine.records) else 0)
        sum_of_all.join(folding.figures())
    assert figures(sum_of_all) == booked(machine)
    assert folding.forgotten == 0


def test_a_long_call_is_divided_among_periods() -> None:
    folding = Folding(about)
    records = nested(("a", 100, ("b", 20), ("a", 40)))  # a: 50 before, 50 after its calls
    assert [record[0] for record in records] == [0, 50, 70, 70, 110, 160]
    first = of_rows(folding, records[:2], 60)
    assert first == {"a": (1, 60, 50), "b": (1, 10, 10)}
    assert of_rows(folding, [], 65) == {"a": (0, 5, 0), "b": (0, 5, 5)}
    assert of_rows(folding, records[2:]) == {"a": (1, 95, 90), "b": (0, 5, 5)}
    assert of_rows(folding, [], 500) == {}


def test_calls_of_a_thread_that_has_ended_end_with_its_last_record() -> None:
    folding = Folding(about)
    folding.add(samples(nested(("a", 20, ("!b", 0)))))
    folding.fold(1000, lambda threads: threads)
    assert figures(folding.figures()) == {"a": (1, 10, 10)} | {"b": (1, 0, 0)}
    assert of_rows(folding, [], 2000) == {}


def test_calls_of_a_function_end_when_it_is_left_out() -> None:
    omitted: list[Omitted] = []
    folding = Folding(about, lambda: omitted)
    assert of_rows(folding, nested(("a", 20, ("!b", 0))), 30) == {"a": (1, 30, 10), "b": (1, 20, 20)}
    omitted.append(Omitted("b", "prog", 40, 1))
    assert of_rows(folding, [], 100) == {"a": (0, 70, 60), "b": (0, 10, 10)}
    assert of_rows(folding, [], 200) == {"a": (0, 100, 100)}


def test_a_call_begun_before_the_period_adds_time_but_no_call() -> None:
    folding = Folding(about)
    records = nested(("a", 100, ("b", 20), ("c", 40)))  # it began at 0, b at 50; c at 70 and ended at 110
    assert of_rows(folding, records[3:4], 90) == {"c": (1, 20, 20)}
    assert of_rows(folding, records[4:]) == {"a": (0, 70, 50), "c": (0, 20, 20)}


def test_memory_does_not_grow_with_the_folded_records() -> None:
    folding, kept = Folding(about), []
    calls = nested(*[("a", 10, ("b", 2))] * 50)
    for turn in range(5):
        of_rows(folding, [(time + 1000 * turn, *rest) for time, *rest in calls])  # type: ignore[misc]
        kept.append(sum(len(vars(folding)[name] or ()) for name in ("_waiting", "_open")))
    assert kept == [0] * 5
