# SPDX-License-Identifier: LGPL-2.1-or-later
"""Numbers for plots, from the times at which things happened: intervals, rates, spectra. Times are in nanoseconds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]
Codes = NDArray[np.int64]  # to which of several series each time belongs
Floats = NDArray[np.float64]

_SEGMENTS = 8  # of a series, whose spectra are averaged
_FEWEST = 16  # bins that a segment of a spectrum is made of at least


def intervals(times: Times) -> Times:
    """The time from each event to the next, in ns; ``times`` are in order."""
    return np.diff(times)


def ordinals(codes: Codes) -> NDArray[np.int64]:
    """1 for the first of its series, 2 for the second, ..."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(codes) else np.zeros(0, np.intp)
    lengths = np.diff(np.append(starts, len(codes)))
    numbers = np.empty(len(codes), np.int64)
    numbers[order] = np.arange(len(codes)) - np.repeat(starts, lengths) + 1
    return numbers


def binned(times: Times, width: int, start: int, end: int) -> NDArray[np.int64]:
    """How many times fall into each interval of ``width`` ns from ``start``; a last one that is cut is left out."""
    number = max((end - start) // width, 0)
    at = (times - start) // width
    return np.bincount(at[(at >= 0) & (at < number)], minlength=number)


def spectrum(times: Times, width: int, start: int, end: int) -> tuple[Floats, Floats]:
    """Frequencies in Hz, and the power density of the rate of arrivals there, in (1/s)^2/Hz, without frequency 0.

    The arrivals in bins of ``width`` ns are cut into segments, half of each shared with the next; of each the mean is
    taken away, a Hann window is laid over it, and the squares of its Fourier transform are averaged (P. D. Welch, The
    use of fast Fourier transform for the estimation of power spectra, 1967). A Poisson process has the power 2 * its
    rate.
    Empty when there are too few bins.
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
    """The exponent of the power law that is closest to the lower half of a spectrum, on its logarithmic scale."""
    lower = (frequencies <= np.sqrt(frequencies[0] * frequencies[-1])) & (power > 0) if len(frequencies) else power > 0
    if lower.sum() < 3:
        return None
    return float(np.polyfit(np.log(frequencies[lower]), np.log(power[lower]), 1)[0])


def round_width(span: int, most: int) -> int:
    """The smallest width of 1, 2 or 5 times a power of ten, in ns, of which ``span`` holds no more than ``most``."""
    width = 1
    while True:
        for factor in (1, 2, 5):
            if span <= most * factor * width:
                return factor * width
        width *= 10


def logarithmic_bins(least: float, greatest: float, per_decade: int) -> Floats:
    """Edges around positive values, ``per_decade`` bins for each power of ten."""
    low = np.floor(np.log10(least) * per_decade)
    high = np.floor(np.log10(greatest) * per_decade) + 1
    edges: Floats = np.power(10.0, np.arange(low, high + 1) / per_decade)
    return edges


def changes(values: NDArray[np.int64]) -> NDArray[np.intp]:
    """The indices of values that differ from the one before or after them: steps look the same with only these."""
    if len(values) < 3:
        return np.arange(len(values))
    differs = values[1:] != values[:-1]
    return np.flatnonzero(np.append(True, differs) | np.append(differs, True))


def thinned(values: Floats, most: int) -> NDArray[np.intp]:
    """Every n-th, so that no more than ``most`` are left, and the least and the greatest."""
    if len(values) <= most:
        return np.arange(len(values))
    step = -(-len(values) // most)
    return np.unique(np.concatenate([np.arange(0, len(values), step), [values.argmin(), values.argmax()]]))
