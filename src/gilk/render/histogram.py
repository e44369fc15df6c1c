# SPDX-License-Identifier: LGPL-2.1-or-later
"""Histograms of the times of calls, by powers of two, one for each function."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gilk.render.text import cell, nanoseconds, plural
from gilk.values import dataclass

_PERCENTILES = (50, 90, 99)
_BAR = 40  # in characters


@dataclass(frozen=True, slots=True)
class Histogram:
    """The histogram of times in ns. `buckets` are (low, count), each for [low, 2 low), the first possible one for [0,
    1), from the first that is not empty to the last. Percentiles are exact: the smallest value that the percentage of
    values does not exceed.
    """

    count: int
    total: int
    least: int
    most: int
    p50: int
    p90: int
    p99: int
    buckets: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, values: NDArray[np.int64]) -> Histogram:
        """The histogram of at least one value; negative values, which only a corrupt record gives, count as 0."""
        values = np.sort(np.maximum(values, 0))
        numbers = np.bincount(_bucket(values))
        first = int(np.flatnonzero(numbers)[0])
        buckets = tuple((1 << n >> 1, int(numbers[n])) for n in range(first, len(numbers)))
        at = [max(0, -(-percent * len(values) // 100) - 1) for percent in _PERCENTILES]
        p50, p90, p99 = (int(values[n]) for n in at)
        total = int(values.sum(dtype=np.float64))  # exact up to 104 days, and cannot overflow
        return cls(len(values), total, int(values[0]), int(values[-1]), p50, p90, p99, buckets)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "buckets": [list(bucket) for bucket in self.buckets]}

    def render(self, name: str) -> str:
        """`name` and a line of figures, then a line for each bucket with a bar; ends with a newline."""
        figures = f"least {nanoseconds(self.least)}, median {nanoseconds(self.p50)}, 90% {nanoseconds(self.p90)}, "
        figures += f"99% {nanoseconds(self.p99)}, most {nanoseconds(self.most)}, total {nanoseconds(self.total)}"
        most = max(count for _, count in self.buckets)
        lines = [f"{cell(name)}: {plural(self.count, 'call')}; {figures}"]
        for low, count in self.buckets:
            bar = "#" * -(-count * _BAR // most)
            lines.append(f"  {_range(low):<18}{count:>10} |{bar:<{_BAR}}|")
        return "\n".join(lines) + "\n"


def by_function(calls: pa.Table) -> dict[str, Histogram]:
    """A histogram for each function of a table of calls; functions that took the most time in all come first."""
    calls = calls.unify_dictionaries()
    names = calls["function"].combine_chunks()
    codes = np.asarray(names.indices.cast(pa.int64()).fill_null(-1))
    order = np.argsort(codes, kind="stable")
    durations = np.asarray(calls["duration"])[order]
    present, starts = np.unique(codes[order], return_index=True)
    made = {}
    for code, part in zip(present.tolist(), np.split(durations, starts)[1:], strict=True):
        made["?" if code < 0 else names.dictionary[code].as_py()] = Histogram.of(part)
    return dict(sorted(made.items(), key=lambda item: -item[1].total))


def _bucket(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of bits of each value: 0 for 0, n for [2**(n-1), 2**n)."""
    bits = np.frexp(values.astype(np.float64))[1].astype(np.int64)
    # A value just below a power of two may have been rounded up to it.
    too_high = (bits > 0) & (values < (np.int64(1) << np.maximum(bits - 1, 0)))
    return bits - too_high


def _range(low: int) -> str:
    return f"[{nanoseconds(low)}, {nanoseconds(max(1, 2 * low))})"
