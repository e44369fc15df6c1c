# SPDX-License-Identifier: LGPL-2.1-or-later
"""Histograms: golden ones, and any by a second calculation in fractions."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gilk.lang.d.buckets import bucket, labels
from gilk.lang.data import Aggregating, Function
from gilk.render.d.distribution import distribution
from gilk.trace.d.contents import divided

QUANTIZE = Aggregating(Function.QUANTIZE)
HEADER = "\n           value  ------------- Distribution ------------- count    \n"


def counted(what: Aggregating, *values: int | tuple[int, int]) -> list[int]:
    """The cells after these values, each once or with its weight."""
    cells = [0] * what.cells
    for value in values:
        number, weight = value if isinstance(value, tuple) else (value, 1)
        cells[bucket(what, number)] += weight
    return cells


def shown(what: Aggregating, *values: int | tuple[int, int], normal: int = 1) -> str:
    text = distribution(what, counted(what, *values), normal).decode()
    assert text.startswith(HEADER)
    return text.removeprefix(HEADER)


def test_positive_weights_are_drawn_to_the_right() -> None:
    assert shown(QUANTIZE, (1, 123)) == (
        "               0 |                                         0        \n"
        "               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 123      \n"
        "               2 |                                         0        \n"
    )


def test_negative_weights_are_drawn_to_the_left() -> None:
    assert shown(QUANTIZE, (1, -123)) == (
        "               0                                         | 0        \n"
        "               1 @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@| -123     \n"
        "               2                                         | 0        \n"
    )


def test_weights_of_both_signs_are_drawn_around_the_middle() -> None:
    assert shown(Aggregating(Function.LLQUANTIZE, factor=2, low=0, high=1, steps=2), 1, (2, -1)) == (
        "               0                     |                     0        \n"
        "               1                     |@@@@@@@@@@           1        \n"
        "               2           @@@@@@@@@@|                     -1       \n"
        "            >= 4                     |                     0        \n"
    )


def test_the_last_bucket_is_printed() -> None:
    assert shown(QUANTIZE, ((1 << 63) - 1, 1234)) == (
        "2305843009213693952 |                                         0        \n"
        "4611686018427387904 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 1234     \n"
    )


def test_lquantize_names_its_outer_buckets() -> None:
    what = Aggregating(Function.LQUANTIZE, low=1, high=3, step=1)
    assert shown(what, 1, -5, -5, 77) == (
        "             < 1 |@@@@@@@@@@@@@@@@@@@@                     2        \n"
        "               1 |@@@@@@@@@@                               1        \n"
        "               2 |                                         0        \n"
        "            >= 3 |@@@@@@@@@@                               1        \n"
    )


def test_llquantize_prints_all_cells_from_negative_to_positive() -> None:
    what = Aggregating(Function.LLQUANTIZE, factor=3, low=3, high=5, steps=27)
    lines = shown(what, *range(1500)).splitlines()
    assert lines[:3] == [
        "             -27 |                                         0        ",
        "      abs() < 27 |@                                        27       ",
        "              27 |                                         3        ",
    ]
    assert lines[-1] == "          >= 729 |@@@@@@@@@@@@@@@@@@@@@                    771      "
    assert len(lines) == 57


def test_llquantize_prints_values_above_its_middle() -> None:
    what = Aggregating(Function.LLQUANTIZE, factor=2, low=6, high=10, steps=2)
    assert shown(what, 64).splitlines()[0] == "            < 64 |                                         0        "


@pytest.mark.parametrize(
    ("what", "names"),
    [
        (QUANTIZE, ["-1", "0", "1"]),
        (Aggregating(Function.LQUANTIZE, low=0, high=10, step=2), ["< 0", "0", "2"]),
        (Aggregating(Function.LLQUANTIZE, factor=10, low=0, high=3, steps=10), ["0", "1", "2"]),
    ],
)
def test_empty_distributions_print_all_cells_with_zero(what: Aggregating, names: list[str]) -> None:
    lines = distribution(what, [0] * what.cells).decode().splitlines()[2:]
    assert lines == [f"{name:>16} |{'':40} 0        " for name in names]


def test_normalize_divides_counts_and_does_not_change_bars() -> None:
    assert shown(QUANTIZE, (0, 100), (1, 300), normal=100).splitlines()[1:3] == [
        "               0 |@@@@@@@@@@                               1        ",
        "               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@           3        ",
    ]


COUNT = st.one_of(st.just(0), st.integers(-100, 100), st.integers(-(1 << 63), (1 << 63) - 1))


@given(st.lists(COUNT, min_size=12, max_size=12), st.integers(1, 1000))
def test_any_distribution_agrees_with_a_calculation_in_fractions(counts: list[int], normal: int) -> None:
    what = Aggregating(Function.LQUANTIZE, low=0, high=100, step=10)
    rows = distribution(what, counts, normal).decode().splitlines()[2:]
    full = [at for at, count in enumerate(counts) if count] or [1]
    expected = range(max(full[0] - 1, 0), min(full[-1] + 1, 11) + 1)
    assert [row[:16].strip() for row in rows] == [labels(what)[at] for at in expected]
    for row, at in zip(rows, expected, strict=True):
        bar, number = row[17:58], row[59:]
        total = sum(map(abs, counts))
        wide = 20 if min(counts) < 0 < max(counts) else 40
        length = floor(Fraction(abs(counts[at]) * wide, total) + Fraction(1, 2)) if total else 0
        assert number == f"{divided(counts[at], normal):<9}"
        assert len(bar) == 41 and bar.count("@") == length and bar.count("|") == 1
        middle = bar.index("|")
        assert middle == {20: 20, 40: 40 if min(counts) < 0 else 0}[wide]
        inner = bar[middle - length : middle] if counts[at] < 0 else bar[middle + 1 : middle + 1 + length]
        assert inner == "@" * length


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(1, 1 << 63))
def test_division_rounds_like_c(value: int, by: int) -> None:
    assert divided(value, by) == int(Fraction(value, by))
