# SPDX-License-Identifier: LGPL-2.1-or-later
"""A trace as a tree of calls per thread: every entry is a row, and the calls of a thread nest.

`gilk.trace.calls` keeps only calls of which both ends are known. Here the others stay, with a `CallState` that says how
far their ends can be trusted. If the calls of a thread do not nest, because it switches between stacks (coroutines; the
idle task, which is one on every processor), it is divided by stack, and the column `stack` numbers them.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gilk.trace.nesting import Bools, Ints
from gilk.trace.samples import NAME
from gilk.trace.traced import Omitted, Unended, Unfollowed
from gilk.values import dataclass

USER, KERNEL = "user", "kernel"  # the lanes; "kernel" is also the name of the image of all kernel code


class CallState(StrEnum):
    """How much of a call the trace has."""

    #: its return was recorded
    WHOLE = "whole"
    #: left by longjmp, an exception, the end of its thread, or a switch to another stack: it ends with the first event
    #: that shows that it is gone, or with its parent; or its function was no longer followed from then on
    LEFT = "left"
    #: running when the trace stops, and cut off there
    OPEN = "open"
    #: its entry was not recorded: it begins with the trace, or behind the last event that cannot have come within it
    BEFORE = "before"
    #: records of its thread were dropped within it: its entry and its return may be of two calls
    CUT = "cut"
    #: it returned, or was left, where its function cannot be instrumented: it ends as one that was left
    CLOSED = "closed"


STATES = tuple(CallState)
SCHEMA = pa.schema(
    [
        *(("start", pa.int64()), ("duration", pa.int64()), ("pid", pa.int32()), ("tid", pa.int32())),
        *(("thread", NAME), ("stack", pa.int32()), ("lane", NAME), ("function", NAME), ("image", NAME)),
        *(("depth", pa.int32()), ("parent", pa.int64()), ("state", NAME)),
    ]
)


@dataclass(frozen=True, eq=False)
class Flow:
    """The calls of a trace. `table` has the calls of thread after thread, in the order of their first events, each
    before its callees: start and duration in ns, pid, tid, thread, stack, lane (user or kernel), function, image,
    depth, parent (a row, -1 for none) and state. `gaps` are (pid, tid, ns) at which records were dropped. Times are in
    ns since the session began.
    """

    table: pa.Table
    start_ns: int
    stop_ns: int
    gaps: tuple[tuple[int, int, int], ...] = ()
    omitted: tuple[Omitted, ...] = ()
    drops: int = 0
    unfollowed: tuple[Unfollowed, ...] = ()
    unended: tuple[Unended, ...] = ()

    def column(self, name: str) -> NDArray[Any]:
        """The values of a column of numbers; the codes of a column of names (see `names`)."""
        column = self.table[name].combine_chunks()
        return np.asarray(column.indices if pa.types.is_dictionary(column.type) else column)

    def names(self, name: str) -> list[str]:
        """The names that the codes of a column stand for."""
        found: list[str] = self.table[name].combine_chunks().dictionary.to_pylist()
        return found

    def is_state(self, *states: CallState) -> Bools:
        """A mask of the calls in one of `states`."""
        return self.is_named("state", *states)

    def is_named(self, column: str, *names: str) -> Bools:
        wanted = [code for code, name in enumerate(self.names(column)) if name in names]
        return np.isin(self.column(column), wanted)

    @property
    def self_times(self) -> Ints:
        """The duration of each call without that of its callees, in ns."""
        duration, parent = self.column("duration"), self.column("parent")
        inner = parent >= 0
        within = np.bincount(parent[inner], weights=duration[inner], minlength=len(duration))
        return duration - within[: len(duration)].astype(np.int64)

    @property
    def states(self) -> dict[str, int]:
        """The number of calls in each state."""
        found = np.bincount(self.column("state"), minlength=len(self.names("state"))).tolist()
        return dict(zip(self.names("state"), found, strict=False))

    @property
    def threads(self) -> set[tuple[int, int]]:
        """The (pid, tid) of all threads that called anything."""
        pairs = np.unique(self.column("pid").astype(np.int64) << 32 | self.column("tid"))
        return {(int(pair) >> 32, int(pair) & 0xFFFFFFFF) for pair in pairs}

    @property
    def tracks(self) -> list[range]:
        """The rows of each thread, or of each stack of a thread that is divided."""
        keys = [self.column(name) for name in ("pid", "tid", "stack")]
        count = len(keys[0])
        changes = np.any([key[1:] != key[:-1] for key in keys], axis=0) if count else np.zeros(0, np.bool_)
        edges = [0, *(np.flatnonzero(changes) + 1).tolist(), count]
        return [range(a, b) for a, b in itertools.pairwise(edges) if a < b]

    def only(self, threads: tuple[str, ...]) -> Flow:
        """The calls of `threads`, each given by its name or number."""
        numbers = [int(name) for name in threads if name.isascii() and name.isdigit() and len(name) < 11]
        kept = np.isin(self.column("tid"), numbers) | self.is_named("thread", *threads)
        return self._with(self.table.filter(pa.array(kept)), np.cumsum(kept) - 1)

    def shallower(self, depth: int) -> Flow:
        """The calls of the uppermost `depth` levels."""
        kept = self.column("depth") < depth
        return self._with(self.table.filter(pa.array(kept)), np.cumsum(kept) - 1)

    def only_rows(self, rows: range) -> Flow:
        """The flow with the rows of one track alone."""
        return self._with(self.table.slice(rows.start, len(rows)), np.arange(self.table.num_rows) - rows.start)

    def _with(self, table: pa.Table, place: Ints) -> Flow:
        """The flow with the rows of `table` alone; `place` has the new number of each old row."""
        parent = np.asarray(table["parent"].combine_chunks())
        moved = np.where(parent >= 0, place[parent], -1)
        at = table.column_names.index("parent")
        return replace(self, table=table.set_column(at, "parent", pa.array(moved, pa.int64())))
