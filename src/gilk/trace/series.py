# SPDX-License-Identifier: LGPL-2.1-or-later
"""Computes numbers for plots from the times of events: intervals, rates, spectra. Times are in nanoseconds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]
Codes = NDArray[np.int64]  # the number of the series that each time belongs to
Floats = NDArray[np.float64]

_SEGMENTS = 8  # the number of segments of a series whose spectra are averaged
_FEWEST = 16  # the fewest bins of a segment of a spectrum


def intervals(times: Times) -> Times:
    """The time from each event to the next, in ns; ``times`` must be in order."""
    return np.diff(times)


def ordinals(codes: Codes) -> NDArray[np.int64]:
    """The ordinal of each event in its series: 1 for the first, 2 for the second, and so on."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(codes) else np.zeros(0, np.intp)
    lengths = np.diff(np.append(starts, len(codes)))
    numbers = np.empty(len(codes), np.int64)
    numbers[order] = np.arange(len(codes)) - np.repeat(starts, lengths) + 1
    return numbers


def binned(times: Times, width: int, start: int, end: int) -> NDArray[np.int64]:
    """The number of times in each interval of ``width`` ns from ``start`` on; an incomplete last interval is
    left out.
    """
    number = max((end - start) // width, 0)
    at = (times - start) // width
    return np.bincount(at[(at >= 0) & (at < number)], minlength=number)


def spectrum(times: Times, width: int, start: int, end: int) -> tuple[Floats, Floats]:
    """Frequencies in Hz, and the power density of the rate of arrivals there, in (1/s)^2/Hz, without frequency 0.

    The arrivals in bins of ``width`` ns are cut into segments, which overlap by half; the mean of each is subtracted, a
    Hann window is applied, and the squares of the Fourier transforms are averaged (P. D. Welch, The use of fast Fourier
    transform for the estimation of power spectra, 1967). A Poisson process has the power 2 * its rate.

    Both are empty if there are too few bins.
    """
    rate = binned(times, width, start, end) / (width / 1e9)
    length = 2 * len(rate) // (_SEGMENTS + 1)
    if length < _FEWEST:
        length = len(rate)
    if length < _FEWEST:
        return np.zeros(0), np.zeros(0)
    window = np.hanning(length + 1)[:-1]
    firsts = range(0, len(rate) - length + 1, max(length // 2, 1))
    powers = [_power(rate[first : first + length], window) for first in firsts]
    scale = 2 * (width / 1e9) / np.square(window).sum()
    frequencies: Floats = np.fft.rfftfreq(length, width / 1e9)[1:].astype(np.float64)
    power: Floats = scale * np.mean(np.stack(powers), axis=0)[1:]
    return frequencies, power


def _power(rate: Floats, window: Floats) -> Floats:
    found: Floats = np.square(np.abs(np.fft.rfft((rate - rate.mean()) * window)))
    return found


def slope(frequencies: Floats, power: Floats) -> float | None:
    """The exponent of the power law that is closest to the lower half of a spectrum, on its logarithmic scale; None if
    that has fewer than three values.
    """
    lower = (frequencies <= np.sqrt(frequencies[0] * frequencies[-1])) & (power > 0) if len(frequencies) else power > 0
    if lower.sum() < 3:
        return None
    return float(np.polyfit(np.log(frequencies[lower]), np.log(power[lower]), 1)[0])


def round_width(span: int, most: int) -> int:
    """The smallest width in ns of 1, 2 or 5 times a power of ten that fits into ``span`` at most ``most`` times."""
    width = 1
    while True:
        for factor in (1, 2, 5):
            if span <= most * factor * width:
                return factor * width
        width *= 10


def logarithmic_bins(least: float, greatest: float, per_decade: int) -> Floats:
    """The edges of bins around positive values, ``per_decade`` bins for each power of ten."""
    low = np.floor(np.log10(least) * per_decade)
    high = np.floor(np.log10(greatest) * per_decade) + 1
    edges: Floats = np.power(10.0, np.arange(low, high + 1) / per_decade)
    return edges


def changes(values: NDArray[np.int64]) -> NDArray[np.intp]:
    """The indices of values that differ from the one before or after them: a plot of steps looks the same with only
    these.
    """
    if len(values) < 3:
        return np.arange(len(values))
    differs = values[1:] != values[:-1]
    return np.flatnonzero(np.append(True, differs) | np.append(differs, True))


def thinned(values: Floats, most: int) -> NDArray[np.intp]:
    """The indices of every n-th value, so that there are no more than ``most``, and of the least and the greatest."""
    if len(values) <= most:
        return np.arange(len(values))
    step = -(-len(values) // most)
    return np.unique(np.concatenate([np.arange(0, len(values), step), [values.argmin(), values.argmax()]]))
