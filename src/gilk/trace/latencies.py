# SPDX-License-Identifier: LGPL-2.1-or-later
"""Histograms of the times of calls, which grow as calls come, so that a run of any length takes no more memory.

An entry whose return has not come yet is kept until it comes, with the last gap of each thread.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gilk.trace.calls import match, pair
from gilk.trace.probes import RecordKind

OCTAVES = 64  # the number of buckets; bucket n has times of n bits: 0 has 0 ns, n has [2**(n-1), 2**n) ns
_MOST_OPEN = 100_000  # the most entries that are kept; the oldest are given up
_FINE = 16  # the number of parts of a bucket, which give percentiles their precision


class Latencies:
    """The histograms of a session's calls, by function. ``add`` takes its samples, in the order in which they come."""

    def __init__(self) -> None:
        self.calls: dict[str, NDArray[np.int64]] = {}  # by function: OCTAVES * _FINE counts
        self.total: dict[str, int] = {}
        self._open: pa.Table | None = None

    def add(self, samples: pa.Table) -> None:
        if not samples.num_rows:
            return
        tables = [samples] if self._open is None else [self._open, samples]
        table = pa.concat_tables(tables, promote_options="default").unify_dictionaries()
        table = table.take(pa.array(np.argsort(np.asarray(table["time"]), kind="stable"))).combine_chunks()
        found = pair(table).table
        for name in found["function"].unique().to_pylist():
            mine = np.asarray(found.filter(pc.equal(found["function"], name))["duration"])
            self._count(name or "?", np.maximum(mine, 0))
        self._keep(table)

    def _count(self, name: str, durations: NDArray[np.int64]) -> None:
        counts = self.calls.setdefault(name, np.zeros(OCTAVES * _FINE, np.int64))
        counts += np.bincount(_places(durations), minlength=len(counts))
        self.total[name] = self.total.get(name, 0) + int(durations.sum())

    def _keep(self, table: pa.Table) -> None:
        found = match(table)
        rows = found.rows[found.open][-_MOST_OPEN:]
        kept = np.sort(np.concatenate([rows, _last_gaps(table)])) if len(rows) else rows
        self._open = table.take(pa.array(kept)) if len(kept) else None

    def forget_open(self) -> None:
        """Give up the entries whose returns have not come: from now on, the returns may be those of other calls."""
        self._open = None

    def octaves(self, name: str) -> list[int]:
        """The numbers of calls of a function, by the number of bits of their time."""
        found: list[int] = self.calls[name].reshape(OCTAVES, _FINE).sum(axis=1).tolist()
        return found

    def about(self, name: str, percent: int) -> int:
        """The time in ns that ``percent`` of a hundred calls do not exceed, to within a sixteenth of it."""
        counts = self.calls[name]
        wanted = -(-percent * int(counts.sum()) // 100)
        return _upper(int(np.searchsorted(np.cumsum(counts), max(wanted, 1))))


def _last_gaps(table: pa.Table) -> NDArray[np.int64]:
    """The row of each thread's last gap."""
    gaps = np.flatnonzero(np.asarray(pc.equal(table["kind"], str(RecordKind.GAP)).fill_null(False)))
    threads = zip(np.asarray(table["pid"])[gaps].tolist(), np.asarray(table["tid"])[gaps].tolist(), strict=True)
    return np.array(list(dict(zip(threads, gaps.tolist(), strict=True)).values()), np.int64)


def _places(durations: NDArray[np.int64]) -> NDArray[np.int64]:
    bits = np.zeros(len(durations), np.int64)
    left = durations.copy()
    for shift in (32, 16, 8, 4, 2, 1):
        big = left >= np.int64(1) << shift
        bits[big] += shift
        left[big] >>= shift
    bits += durations > 0
    low = np.where(bits > 0, np.int64(1) << np.maximum(bits - 1, 0), 0)
    fine = np.where(low >= _FINE, (durations - low) // np.maximum(low // _FINE, 1), durations - low)
    return bits * _FINE + np.minimum(fine, _FINE - 1)


def _upper(place: int) -> int:
    """The highest time in ns that belongs to a place of a histogram."""
    bits, fine = divmod(place, _FINE)
    low = 1 << bits >> 1
    return low + (fine + 1) * (low // _FINE) - 1 if low >= _FINE else low + fine
