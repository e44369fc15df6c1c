# SPDX-License-Identifier: LGPL-2.1-or-later
"""The parts of aggregations that are kept while a program runs add up to the aggregations."""

from __future__ import annotations

from gilk.lang.data import Aggregating, Aggregation, Function
from gilk.trace.d.events import Column, Snapshot, SnapshotRow
from gilk.trace.d.values import Distribution, Integer, Text, Value
from gilk.web.growing import MOST_GROWING, MOST_ROWS, TIMES, GrowingAggregations, GrowingLatencies

QUANTIZE = Aggregating(Function.QUANTIZE)


def snapshot(name: str, function: Function, rows: list[tuple[str, Value]], columns: int = 1) -> Snapshot:
    one = Column(Aggregation(1, name, Aggregating(function), (), 8))
    made = tuple(SnapshotRow((Text(key.encode()),), (value,) * columns, ()) for key, value in rows)
    return Snapshot((one,) * columns, made, final=True)


def distribution(**counts: int) -> Distribution:
    """A distribution from counts of cells: ``z4=3`` means three in cell 4 above that of zero."""
    cells = [0] * QUANTIZE.cells
    for name, count in counts.items():
        cells[63 + int(name[1:])] = count
    return Distribution(QUANTIZE, tuple(cells))


def looked(growing: GrowingAggregations, *found: Distribution) -> list[dict[str, object]]:
    for second, each in enumerate(found):
        growing.take([snapshot("q", Function.QUANTIZE, [("k", each)])], second)
    return growing.shown()[0]["rows"][0]["times"]  # type: ignore[no-any-return]


def test_growth_adds_up_to_the_aggregation() -> None:
    times = looked(GrowingAggregations(), distribution(z1=2), distribution(z1=2, z3=5), distribution(z1=9, z3=5))
    assert [each["more"] for each in times] == [[[1, 2]], [[4, 5]], [[1, 7]]]


def test_a_cleared_aggregation_begins_anew() -> None:
    times = looked(GrowingAggregations(), distribution(z1=9), distribution(z1=4, z2=1))
    assert times[-1]["more"] == [[1, 4], [2, 1]]


def test_rows_and_times_are_bounded() -> None:
    growing = GrowingAggregations()
    rows: list[tuple[str, Value]] = [(f"<b>{n}", distribution(z1=n + 1)) for n in range(MOST_ROWS + 10)]
    for second in range(TIMES + 5):
        growing.take([snapshot("q", Function.QUANTIZE, rows)], second)
    (shown,) = growing.shown()
    assert (len(shown["rows"]), shown["left_out"]) == (MOST_ROWS, 10)
    kept = [len(row.get("times", ())) for row in shown["rows"]]
    assert kept == [0] * (MOST_ROWS - MOST_GROWING) + [TIMES] * MOST_GROWING


def test_values_over_time_are_those_of_each_look() -> None:
    growing = GrowingAggregations()
    for second, value in enumerate((5, 3, 9)):
        growing.take([snapshot("a", Function.AVG, [("k", Integer(value))])], second)
    growing.finish(snapshot("a", Function.AVG, [("k", Integer(4))]))
    (row,) = growing.shown()[0]["rows"]
    assert row["values"] == [4]
    assert row["times"] == [{"seconds": second, "value": value} for second, value in enumerate((5, 3, 9))]


def test_counts_have_no_lines() -> None:
    growing = GrowingAggregations()
    growing.take([snapshot("c", Function.COUNT, [("k", Integer(1))])], 0)
    assert "times" not in growing.shown()[0]["rows"][0]


def test_the_final_aggregation_replaces_the_growing_one() -> None:
    growing = GrowingAggregations()
    growing.take([snapshot("c", Function.COUNT, [("a", Integer(1))])], 0)
    growing.finish(snapshot("c", Function.COUNT, [("a", Integer(7))]))
    growing.finish(snapshot("d", Function.COUNT, [("a", Integer(7))], columns=2))
    assert [(one["name"], one["rows"][0]["values"]) for one in growing.shown()] == [("c", [7])]


def calls(**octaves: list[int]) -> dict[str, dict[str, object]]:
    return {name: {"calls": sum(counts), "octaves": counts} for name, counts in octaves.items()}


def test_times_of_calls_grow_once_a_second() -> None:
    growing = GrowingLatencies()
    growing.of(calls(f=[0, 2]), 0.1)
    growing.of(calls(f=[0, 3]), 0.5)
    found = growing.of(calls(f=[1, 7, 4]), 1.2)["f"]
    assert found["calls"] == 12
    assert found["times"] == [{"seconds": 0.1, "more": [[1, 2]]}, {"seconds": 1.2, "more": [[0, 1], [1, 5], [2, 4]]}]


def test_a_function_that_comes_to_have_most_calls_has_no_burst() -> None:
    growing = GrowingLatencies()
    names = [f"f{n}" for n in range(MOST_GROWING)]
    growing.of(calls(late=[1], **{name: [9] for name in names}), 0.1)
    growing.of(calls(late=[50], **{name: [9] for name in names}), 1.1)
    found = growing.of(calls(late=[53], **{name: [9] for name in names}), 2.1)
    assert found["late"]["times"] == [{"seconds": 1.1, "more": []}, {"seconds": 2.1, "more": [[0, 3]]}]
    assert [len(found[name]["times"]) for name in names] == [3] * (MOST_GROWING - 1) + [1]
