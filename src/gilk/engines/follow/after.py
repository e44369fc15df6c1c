# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counting of records that were dropped after the trace was over: after its last event, while functions were still
followed.

A thread that has made a record after that event drops no more records of the trace. If it is not known on which side of
the event records were dropped, they count as the trace's.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gilk.trace.probes import RecordKind

Thread = tuple[int, int]  # pid, tid


class After:
    def __init__(self) -> None:
        self._seen: set[int] = set()  # threads that have made a record after the event
        self._count = 0

    def look(self, table: pa.Table, after: NDArray[np.bool_]) -> None:
        """Look at samples, in order of time. ``after``: for each row, whether it is later than the event."""
        rows = np.flatnonzero(after)
        if not len(rows):
            return
        part = table.select(["pid", "tid", "kind", "sp"]).take(pa.array(rows))
        threads = np.asarray(part["pid"]).astype(np.int64) << 32 | np.asarray(part["tid"]).view(np.uint32)
        gaps = np.asarray(pc.equal(part["kind"], str(RecordKind.GAP)).fill_null(False))
        missing = np.asarray(part["sp"])
        first = self._first(threads, gaps)
        for row in np.flatnonzero(gaps).tolist():
            if threads[row] in self._seen or first.get(int(threads[row]), len(rows)) < row:
                self._count += int(missing[row])
        self._seen.update(first)

    @staticmethod
    def _first(threads: NDArray[np.int64], gaps: NDArray[np.bool_]) -> dict[int, int]:
        """The first row of each thread that is a record and no gap."""
        records = np.flatnonzero(~gaps)
        found, at = np.unique(threads[records], return_index=True)
        return dict(zip(found.tolist(), records[at].tolist(), strict=True))

    def dropped(self, tails: Iterable[tuple[Thread, int]]) -> int:
        """How many records were dropped after the event. ``tails``: how many were dropped behind the last record of
        each thread."""
        behind = (count for (pid, tid), count in tails if pid << 32 | tid & 0xFFFFFFFF in self._seen)
        return self._count + sum(behind)
