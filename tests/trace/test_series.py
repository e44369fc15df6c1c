# SPDX-License-Identifier: LGPL-2.1-or-later
"""Intervals, rates and spectra agree with sums done one by one, and with theory."""

from __future__ import annotations

import cmath
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gilk.trace import series

SECOND = 1_000_000_000


@given(st.lists(st.integers(0, 5)))
def test_ordinals_count_repetitions_of_each_value(codes: list[int]) -> None:
    seen: dict[int, int] = {}
    expected = []
    for code in codes:
        seen[code] = seen.get(code, 0) + 1
        expected.append(seen[code])
    assert series.ordinals(np.array(codes, np.int64)).tolist() == expected


@given(st.lists(st.integers(-50, 1000)), st.integers(1, 70), st.integers(-20, 20), st.integers(0, 900))
def test_bins_count_events_of_whole_intervals(times: list[int], width: int, start: int, end: int) -> None:
    whole = max((end - start) // width, 0)
    expected = [sum(start + n * width <= t < start + (n + 1) * width for t in times) for n in range(whole)]
    assert series.binned(np.array(times, np.int64), width, start, end).tolist() == expected


@given(st.integers(1, 10**15), st.integers(1, 10**6))
def test_a_round_width_is_the_smallest_that_fits(span: int, most: int) -> None:
    width = series.round_width(span, most)
    assert str(width).rstrip("0") in ("1", "2", "5")
    assert span <= most * width
    smaller = {"1": width * 5 // 10, "2": width // 2, "5": width * 2 // 5}[str(width)[0]]
    assert not smaller or span > most * smaller


@given(st.lists(st.integers(0, 3)))
def test_leaving_out_repeated_values_keeps_the_shape_of_steps(values: list[int]) -> None:
    kept = series.changes(np.array(values, np.int64)).tolist()
    assert all(n in kept for n in (0, len(values) - 1) if values)
    at = {n: values[n] for n in kept}
    shown, current = [], None
    for n in range(len(values)):
        current = at.get(n, current)
        shown.append(current)
    assert shown == values


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.integers(1, 50))
def test_thinning_keeps_the_extremes(values: list[float], most: int) -> None:
    kept = np.array(values)[series.thinned(np.array(values), most)]
    assert len(kept) <= most + 2
    assert kept.min() == min(values) and kept.max() == max(values)
    assert len(values) > most or kept.tolist() == values


@given(st.floats(1e-9, 1e9), st.floats(1, 1e9))
def test_logarithmic_bins_cover_their_range(least: float, factor: float) -> None:
    edges = series.logarithmic_bins(least, least * factor, 10)
    assert edges[0] <= least * (1 + 1e-12) and least * factor <= edges[-1] * (1 + 1e-12)
    assert np.allclose(edges[1:] / edges[:-1], 10**0.1)


def slow_spectrum(counts: list[float], width: float) -> list[float]:
    """The spectrum of one segment, with sums as in the definition."""
    number = len(counts)
    mean = sum(counts) / number / width
    window = [0.5 - 0.5 * math.cos(2 * math.pi * n / number) for n in range(number)]
    scale = 2 * width / sum(w * w for w in window)
    powers = []
    for k in range(1, number // 2 + 1):
        terms = (w * (c / width - mean) * cmath.exp(-2j * math.pi * k * n / number) for n, (c, w) in
                 enumerate(zip(counts, window, strict=True)))  # fmt: skip
        powers.append(scale * abs(sum(terms)) ** 2)
    return powers


def test_a_spectrum_agrees_with_its_definition() -> None:
    """The 8 overlapping whole segments of 9 half ones are averaged."""
    chance = random.Random(4)
    length, width = 16, 10_000_000
    counts = [chance.randrange(5) for _ in range(length * 9 // 2)]
    times = np.array([n * width + i for n, c in enumerate(counts) for i in range(c)], np.int64)
    frequencies, power = series.spectrum(times, width, 0, width * len(counts))
    segments = [slow_spectrum([*map(float, counts[at : at + length])], width / 1e9) for at in range(0, 57, 8)]
    assert len(segments) == 8
    assert np.allclose(power, np.mean(segments, axis=0))
    assert np.allclose(frequencies, np.arange(1, 9) / (length * width / 1e9))


def poisson(rate: float, seconds: float) -> NDArray[np.int64]:
    chance = np.random.default_rng(1)
    return np.sort(chance.uniform(0, seconds * SECOND, int(rate * seconds)).astype(np.int64))


def test_random_arrivals_have_a_flat_spectrum_of_twice_their_rate() -> None:
    """This is Campbell's theorem."""
    _, power = series.spectrum(poisson(1000, 60), 1_000_000, 0, 60 * SECOND)
    assert power.mean() == pytest.approx(2000, rel=0.05)
    slope = series.slope(*series.spectrum(poisson(1000, 60), 1_000_000, 0, 60 * SECOND))
    assert slope == pytest.approx(0, abs=0.1)


def test_a_periodic_series_has_a_peak_in_its_spectrum() -> None:
    times = (np.arange(5000) * 0.02 * SECOND).astype(np.int64)  # 50 Hz
    frequencies, power = series.spectrum(times, 1_000_000, 0, 100 * SECOND)
    peaks = frequencies[power > 0.1 * power.max()]
    assert np.allclose(np.round(peaks / 50) * 50, peaks, atol=0.2)
    assert peaks.min() == pytest.approx(50, abs=0.2)


def test_the_exponent_of_a_power_law_is_found() -> None:
    frequencies = np.geomspace(1, 1e4, 1000)
    assert series.slope(frequencies, 7 * frequencies**-1.3) == pytest.approx(-1.3)


@pytest.mark.parametrize("times", [[], [5], [5, 6]])
def test_a_short_series_has_no_spectrum(times: list[int]) -> None:
    frequencies, power = series.spectrum(np.array(times, np.int64), 10, 0, 100)
    assert len(frequencies) == len(power) == 0
    assert series.slope(frequencies, power) is None
