# SPDX-License-Identifier: LGPL-2.1-or-later
"""Rows are sorted by value, then by key; options change that; trunc() keeps one end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gilk.lang.d.buckets import bucket
from gilk.lang.data import Aggregating, Aggregation, Datum, Function, Kind
from gilk.trace.d.contents import AggregationRow, Contents
from gilk.trace.d.sorting import Order, key_rank, ordered, truncated, weight
from gilk.trace.d.values import Integer

TWO = (Datum(Kind.INT, 0, 1), Datum(Kind.INT, 1, 1))


def table(*rows: tuple[int, int, int], number: int = 1) -> Contents:
    made = tuple(
        AggregationRow(bytes([a & 255, b & 255]), (Integer(a, 1), Integer(b, 1)), (value,)) for a, b, value in rows
    )
    return Contents(Aggregation(number, "a", Aggregating(Function.SUM), TWO, 2), made)


def found(contents: list[Contents], order: Order) -> list[tuple[int, ...]]:
    return [(one.aggregation.number, *row.key, row.cells[0]) for one, row in ordered(contents, order)]


ROWS = table((2, 1, 5), (1, 2, 5), (3, 3, -7), (1, 1, 9))


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (Order(), [(3, 3, -7), (1, 2, 5), (2, 1, 5), (1, 1, 9)]),
        (Order(reverse=True), [(1, 1, 9), (2, 1, 5), (1, 2, 5), (3, 3, -7)]),
        (Order(by_key=True), [(1, 1, 9), (1, 2, 5), (2, 1, 5), (3, 3, -7)]),
        (Order(by_key=True, key_position=1), [(1, 1, 9), (2, 1, 5), (1, 2, 5), (3, 3, -7)]),
        (Order(by_key=True, key_position=2), [(1, 1, 9), (1, 2, 5), (2, 1, 5), (3, 3, -7)]),
    ],
)
def test_options_change_the_order_of_rows(order: Order, expected: list[tuple[int, ...]]) -> None:
    assert found([ROWS], order) == [(1, *row) for row in expected]


def test_aggregations_come_in_the_order_of_their_numbers() -> None:
    both = [table((1, 1, 1), number=2), table((1, 1, 7), number=1)]
    assert [one for one, *_ in found(both, Order())] == [1, 2]
    assert [one for one, *_ in found(both, Order(reverse=True))] == [2, 1]


@pytest.mark.parametrize(
    ("keep", "values"), [(0, []), (1, [9]), (2, [9, 5]), (-1, [-7]), (-2, [-7, 5]), (9, [9, 5, 5, -7])]
)
def test_trunc_keeps_one_end_of_the_rows(keep: int, values: list[int]) -> None:
    assert [row.cells[0] for row in truncated(ROWS, keep).rows] == values


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9), st.integers(-3, 3)), unique_by=lambda row: row[:2]))
def test_signed_keys_are_compared_as_unsigned(rows: list[tuple[int, int, int]]) -> None:
    expected = sorted(rows, key=lambda row: (row[2], row[0] & 255, row[1] & 255))
    assert found([table(*rows)], Order()) == [(1, a & 255, b & 255, value) for a, b, value in expected]


def test_keys_of_other_types_are_compared() -> None:
    layout = (Datum(Kind.STRING, 0, 6), Datum(Kind.USYM, 6, 16), Datum(Kind.INT, 22, 4))
    aggregation = Aggregation(1, "a", Aggregating(Function.SUM), layout, 26)
    key = b"abc\0\0\0" + (7).to_bytes(8, "little") + (256).to_bytes(8, "little") + (258).to_bytes(4, "little")
    assert key_rank(aggregation, key) == (b"abc\0\0\0", (7, 256), 258)


def test_averages_are_compared_as_averages() -> None:
    assert weight(Aggregating(Function.AVG), (4, 20)) == (5,)
    assert weight(Aggregating(Function.STDDEV), (2, 0, 50, 0)) == (5,)


@pytest.mark.parametrize(
    ("what", "weighted"),
    [
        (Aggregating(Function.QUANTIZE), ([(5, 1), (0, 3)], (4, 3))),
        (Aggregating(Function.LQUANTIZE, low=0, high=10, step=5), ([(7, 2), (-3, 1), (99, 1), (1, 1)], (20, 1))),
        (Aggregating(Function.LLQUANTIZE, factor=10, low=0, high=2, steps=10), ([(-55, 2), (7, 1), (0, 1)], (-93, 1))),
    ],
)
def test_distributions_are_compared_by_their_sums(
    what: Aggregating, weighted: tuple[list[tuple[int, int]], tuple[int, int]]
) -> None:
    cells = [0] * what.cells
    for value, count in weighted[0]:
        cells[bucket(what, value)] += count
    assert weight(what, [cell % (1 << 64) for cell in cells]) == weighted[1]
