# SPDX-License-Identifier: LGPL-2.1-or-later
"""The values that cells stand for: averages and deviations as DTrace rounds them."""

from __future__ import annotations

from math import isqrt

from hypothesis import given
from hypothesis import strategies as st

from gilk.lang.data import Aggregating, Aggregation, Function
from gilk.lang.types import signed
from gilk.trace.d.contents import Contents, number, stddev
from gilk.trace.d.values import Distribution, Integer

M64, M128 = (1 << 64) - 1, (1 << 128) - 1
LARGE = st.integers(-(1 << 31), 1 << 31)


def moments(values: list[int]) -> tuple[int, int, int, int]:
    squares = sum(value * value for value in values) & M128
    return len(values), sum(values) & M64, squares & M64, squares >> 64


def towards_nought(value: int, by: int) -> int:
    return abs(value) // by * (1 if value >= 0 else -1)


@given(st.lists(LARGE, min_size=1, max_size=20), st.integers(1, 100))
def test_averages_and_deviations_are_rounded_like_dtrace(values: list[int], normal: int) -> None:
    cells = moments(values)
    mean = towards_nought(towards_nought(sum(values), normal), len(values))
    assert number(Function.AVG, cells[:2], normal) == mean
    squares = sum(value * value for value in values) // normal // len(values)
    if squares >= mean * mean:
        assert stddev(cells, normal) == isqrt(squares - mean * mean)


def test_deviation_of_large_values_needs_128_bits() -> None:
    assert stddev(moments([1 << 62, -(1 << 62)])) == 1 << 62
    assert number(Function.STDDEV, moments([5, 5, 5, 9])) == 1


def test_averages_and_deviations_of_no_values_are_zero() -> None:
    assert number(Function.AVG, (0, 0)) == number(Function.STDDEV, (0, 0, 0, 0)) == 0


def test_normalize_and_denormalize_divide_and_restore() -> None:
    aggregation = Aggregation(1, "a", Aggregating(Function.SUM), (), 0)
    contents = Contents(aggregation)
    assert contents.normalized(10).total((M64 - 98,)) == Integer(-9)
    assert contents.normalized(10).normalized(1).total((M64,)) == Integer(-1)
    assert contents.normalized(0).normal == 1


def test_a_count_is_unsigned_and_a_distribution_is_signed() -> None:
    count = Contents(Aggregation(1, "a", Aggregating(Function.COUNT), (), 0))
    assert count.total((3,)) == Integer(3, 8, False)
    what = Aggregating(Function.QUANTIZE)
    contents = Contents(Aggregation(1, "a", what, (), 0)).normalized(2)
    assert contents.total((M64,) + (0,) * 126) == Distribution(what, (-1,) + (0,) * 126, 2)


def test_cells_are_signed() -> None:
    assert (signed(M64), signed(1 << 63), signed(5), signed(-5)) == (-1, -(1 << 63), 5, -5)
