# SPDX-License-Identifier: LGPL-2.1-or-later
"""The programs that processes executed while their calls were recorded. A sample of kind `program` says that from then
on its process runs another program, or that it has ended: no call of the program before is under way any more.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gilk.trace.nesting import Ints
from gilk.trace.probes import RecordKind
from gilk.trace.samples import schema


def mark(time: int, pid: int, thread: str, path: str) -> pa.Table:
    """A table with such a sample. ``time`` is in ns since the session's start; ``path`` is the program, '' if the
    process has ended.
    """
    row = {"time": time, "pid": pid, "tid": pid, "thread": thread, "point": path or None, "function": None}
    return pa.Table.from_pylist([{**row, "kind": str(RecordKind.PROGRAM), "sp": 0}], schema=schema({0}))


def marks(samples: pa.Table) -> Ints:
    """The rows of the samples of kind `program`."""
    kinds = samples["kind"].combine_chunks()
    names = kinds.dictionary.to_pylist()
    if RecordKind.PROGRAM not in names:
        return np.empty(0, np.int64)
    return np.flatnonzero(np.asarray(kinds.indices.fill_null(-1)) == names.index(RecordKind.PROGRAM))


def programs(samples: pa.Table) -> Ints:
    """The number of each row's program among those of its process, from 0; the table is in order of time."""
    number = np.zeros(samples.num_rows, np.int64)
    found = marks(samples)
    if not len(found):
        return number
    pids = np.asarray(samples["pid"])
    number[found] = 1
    order = np.argsort(pids, kind="stable")
    running = np.cumsum(number[order])
    first = np.flatnonzero(np.diff(pids[order], prepend=pids[order][0] - 1))
    before = running[first] - number[order][first]
    number[order] = running - np.repeat(before, np.diff(np.append(first, len(order))))
    return number


def ends(samples: pa.Table, programs: Ints) -> dict[tuple[int, int], int]:
    """The times at which programs were over, by process and number. ``programs``: the program's number for each row."""
    found = marks(samples)
    pids, when = (np.asarray(samples[name])[found].tolist() for name in ("pid", "time"))
    return dict(zip(zip(pids, (programs[found] - 1).tolist(), strict=True), when, strict=True))
