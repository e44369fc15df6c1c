# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every value falls in its bucket; figures are those of a plain sort."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gilk.render.histogram import Histogram, by_function


def nearest_rank(values: list[int], percent: int) -> int:
    """The smallest value that at least `percent` in a hundred values do not exceed."""
    return next(v for v in sorted(values) if sum(w <= v for w in values) * 100 >= percent * len(values))


@given(st.lists(st.one_of(st.integers(0, 40), st.integers(0, (1 << 62) - 1)), min_size=1, max_size=50))
def test_buckets_and_percentiles(values: list[int]) -> None:
    made = Histogram.of(np.array(values, np.int64))
    expected: dict[int, int] = {}
    for value in values:
        low = 1 << value.bit_length() >> 1
        expected[low] = expected.get(low, 0) + 1
    assert {low: count for low, count in made.buckets if count} == expected
    assert made.buckets[0][1] and made.buckets[-1][1]
    assert (made.p50, made.p90, made.p99) == tuple(nearest_rank(values, p) for p in (50, 90, 99))
    assert (made.count, made.least, made.most) == (len(values), min(values), max(values))
    assert abs(made.total - sum(values)) <= sum(values) >> 50


def test_a_histogram_as_text() -> None:
    assert Histogram.of(np.array([0, 1, 300, 500, 500, 1100])).render("f").splitlines() == [
        "f: 6 calls; least 0ns, median 300ns, 90% 1.1us, 99% 1.1us, most 1.1us, total 2.4us",
        "  [0ns, 1ns)                 1 |##############                          |",
        "  [1ns, 2ns)                 1 |##############                          |",
        *(f"  {f'[{1 << n}ns, {2 << n}ns)':<18}         0 |{' ' * 40}|" for n in range(1, 8)),
        "  [256ns, 512ns)             3 |########################################|",
        f"  [512ns, 1.02us)            0 |{' ' * 40}|",
        "  [1.02us, 2.05us)           1 |##############                          |",
    ]


def test_negative_times_of_corrupt_records_count_as_zero() -> None:
    assert Histogram.of(np.array([-5, 3])).buckets == ((0, 1), (1, 0), (2, 1))


def test_functions_come_in_order_of_their_total() -> None:
    names = pa.array(["f", "g", "f", None]).dictionary_encode()
    made = by_function(pa.table({"function": names, "duration": [1, 100, 2, 50]}))
    assert [(name, histogram.total) for name, histogram in made.items()] == [("g", 100), ("?", 50), ("f", 3)]


def test_without_calls_there_are_no_histograms() -> None:
    empty = pa.array([], pa.string()).dictionary_encode()
    assert by_function(pa.table({"function": empty, "duration": pa.array([], pa.int64())})) == {}
