# SPDX-License-Identifier: LGPL-2.1-or-later
"""A value is counted in the cell whose range has it: compared with a search through all ranges."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gilk.lang.d import buckets
from gilk.lang.data import Aggregating, Function

QUANTIZE = Aggregating(Function.QUANTIZE)
LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
EDGES = [LOWEST, LOWEST + 1, -(1 << 62) - 1, -(1 << 62), -3, -2, -1, 0, 1, 2, 3, 1 << 62, (1 << 62) - 1, HIGHEST]
VALUES = st.one_of(st.sampled_from(EDGES), st.integers(-1000, 1000), st.integers(LOWEST, HIGHEST))
LQUANTIZE = st.builds(
    lambda low, steps, step: Aggregating(Function.LQUANTIZE, low=low, high=low + steps * step, step=step),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(1, 50),
    st.integers(1, 1000),
)
LLQUANTIZE = st.builds(
    lambda factor, low, more, times: Aggregating(
        Function.LLQUANTIZE, factor=factor, low=low, high=low + more, steps=factor * times
    ),
    st.integers(2, 10),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from([1, 2]),
)


def linear(what: Aggregating, value: int) -> int:
    """The cell of the value, by a pass over the ranges, written independently for each function."""
    if what.function is Function.LQUANTIZE:
        cell, edge = 0, what.low
        while cell < what.cells - 1 and value >= edge:
            cell, edge = cell + 1, edge + what.step
        return cell
    edges = [1 << k for k in range(63)] if what.function is Function.QUANTIZE else what.edges
    passed = sum(edge <= abs(value) for edge in edges)
    return len(edges) + passed if value >= 0 else len(edges) - passed


@given(st.one_of(st.just(QUANTIZE), LQUANTIZE, LLQUANTIZE), VALUES)
def test_every_value_is_counted_in_the_cell_of_its_range(what: Aggregating, value: int) -> None:
    assume(what.function is not Function.LLQUANTIZE or len(set(what.edges)) == len(what.edges))
    found = buckets.bucket(what, value)
    assert found == linear(what, value)
    assert 0 <= found < what.cells
    assert len(buckets.labels(what)) == len(buckets.starts(what)) == what.cells


@pytest.mark.parametrize(
    ("value", "cell"),
    [(0, 63), (1, 64), (2, 65), (3, 65), (4, 66), (-1, 62), (-2, 61), (-3, 61), (-4, 60), (1 << 62, 126),
     (HIGHEST, 126), (-(1 << 62), 0), (LOWEST, 0)],
)  # fmt: skip
def test_cells_of_quantize(value: int, cell: int) -> None:
    assert buckets.quantize(value) == cell


def test_cells_of_quantize_are_labelled_with_the_end_nearer_to_zero() -> None:
    names = buckets.labels(QUANTIZE)
    assert names[61:67] == ("-2", "-1", "0", "1", "2", "4")
    assert (names[0], names[126]) == ("-4611686018427387904", "4611686018427387904")


def test_lquantize_counts_values_outside_its_range() -> None:
    what = Aggregating(Function.LQUANTIZE, low=-10, high=20, step=10)
    assert [buckets.bucket(what, value) for value in (-11, -10, -1, 0, 19, 20, HIGHEST, LOWEST)] == [
        0, 1, 1, 2, 3, 4, 4, 0,
    ]  # fmt: skip
    assert buckets.labels(what) == ("< -10", "-10", "0", "10", ">= 20")
    assert buckets.starts(what) == (-11, -10, 0, 10, 21)
    assert buckets.zero(what) == 2
    assert buckets.zero(Aggregating(Function.LQUANTIZE, low=3, high=9, step=3)) is None


def test_llquantizes_steps_grow_with_the_magnitude() -> None:
    what = Aggregating(Function.LLQUANTIZE, factor=4, low=0, high=1, steps=4)
    assert what.edges == (1, 2, 3, 4, 8, 12, 16)
    names = "<= -16,-12,-8,-4,-3,-2,-1,0,1,2,3,4,8,12,>= 16"
    assert buckets.labels(what) == tuple(names.split(","))
    assert [buckets.bucket(what, value) for value in (0, 1, 7, 16, LOWEST, -7, HIGHEST)] == [7, 8, 11, 14, 0, 3, 14]


def test_the_middle_cell_of_llquantize_is_labelled_by_the_cells_shown() -> None:
    what = Aggregating(Function.LLQUANTIZE, factor=10, low=2, high=3, steps=10)
    middle = len(what.edges)
    assert buckets.labels(what, middle)[middle] == "< 100"
    assert buckets.labels(what, middle - 1)[middle] == "abs() < 100"


@pytest.mark.parametrize("call", [lambda what: buckets.bucket(what, 1), buckets.starts])
def test_a_count_has_no_buckets(call: object) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match="no distribution"):
        call(Aggregating(Function.COUNT))
