# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes calls of entries and returns.

A return record's sp equals that of the entry it belongs to, so the two are matched by process (and its program),
function and sp; not by thread, since a coroutine may enter on one thread and return on another. If one entry follows
another with the same key, the first call was left by longjmp or an exception: it is abandoned. A function that jumps to
its own start (kind `time-head`) is different: the first entry begins the call, and the following ones are rounds of it.

sp is the low half of the stack pointer. Two stacks exactly a multiple of 4 GiB apart, in the same function at the same
depth at once, are mistaken for each other: a pair of them is taken for one call. If records were dropped (kind `gap`),
an entry before and a return after might not belong together: those calls are cut.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gilk.trace import executed
from gilk.trace.probes import RecordKind
from gilk.trace.samples import NAME
from gilk.values import dataclass

SCHEMA = pa.schema(
    [
        *(("function", NAME), ("start", pa.int64()), ("duration", pa.int64()), ("pid", pa.int32())),
        *(("tid", pa.int32()), ("thread", NAME), ("depth", pa.int32())),
    ]
)

Index = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class CallTable:
    """Calls in order of their start, in `table`: function, start and duration in ns, pid, tid and thread of the entry,
    and depth: the number of calls that this thread had entered before and that were still under way.

    Other calls are only counted: entries `abandoned`, entries still `open` at the end, returns whose entry came before
    the session or was dropped (`orphans`), and pairs `cut` by dropped records of their thread.
    """

    table: pa.Table
    abandoned: int = 0
    open: int = 0
    orphans: int = 0
    cut: int = 0


@dataclass(frozen=True, eq=False)
class Matches:
    """Entries and returns, by number; `rows` has their places in the samples, in order of time. `first` and `last` are
    the entry and the return of each pair. `rounds` are heads that belong to a call under way.
    """

    rows: Index
    entry: NDArray[np.bool_]
    first: Index
    last: Index
    abandoned: Index
    open: Index
    orphans: Index
    rounds: Index


def pair(samples: pa.Table) -> CallTable:
    """The calls in a table of samples that is in order of time."""
    samples = samples.unify_dictionaries()
    found = match(samples)
    if not len(found.rows):
        return CallTable(SCHEMA.empty_table())
    first, last = found.first, found.last
    whole = ~cut_by_gaps(samples, found.rows[first], found.rows[last])
    cut = int((~whole).sum())
    first, last = first[whole], last[whole]
    by_start = np.argsort(first, kind="stable")
    table = _table(samples, found.rows, first[by_start], last[by_start])
    return CallTable(table, len(found.abandoned), len(found.open), len(found.orphans), cut)


def match(samples: pa.Table) -> Matches:
    """The entries and returns that belong together, in a table in order of time with unified dictionaries."""
    kinds = samples["kind"].combine_chunks()
    head = _is(kinds, RecordKind.HEAD)
    entry = _is(kinds, RecordKind.ENTRY) | head
    rows = np.flatnonzero(entry | _is(kinds, RecordKind.RETURN))
    if not len(rows):
        none = np.empty(0, np.intp)
        return Matches(none, np.empty(0, np.bool_), none, none, none, none, none, none)
    keys = _keys(samples, rows)
    every = np.argsort(keys, kind="stable")
    order, rounds = _without_rounds(every, keys, entry[rows], head[rows])
    same = _same_as_next(keys[order])
    entered = entry[rows][order]
    follows = np.append(entered[1:], False)
    paired = entered & same & ~follows
    taken = np.append(False, paired[:-1])
    return Matches(
        *(rows, entry[rows], order[paired], order[taken]),
        abandoned=order[entered & same & follows],
        open=order[entered & ~same],
        orphans=order[~entered & ~taken],
        rounds=rounds,
    )


def _without_rounds(
    order: Index, keys: NDArray[np.uint64], entry: NDArray[np.bool_], head: NDArray[np.bool_]
) -> tuple[Index, Index]:
    """`order` without the heads that follow an entry of the same key, and those heads."""
    before, after = order[:-1], order[1:]
    first = np.append(True, ~(head[after] & entry[before] & (keys[after] == keys[before])))
    return order[first], order[~first]


def cut_by_gaps(samples: pa.Table, first: Index, last: Index) -> NDArray[np.bool_]:
    """Whether the thread of the one or of the other row of each pair has a gap in between."""
    gaps = np.flatnonzero(_is(samples["kind"].combine_chunks(), RecordKind.GAP))
    found = np.zeros(len(first), np.bool_)
    if not len(gaps):
        return found
    threads = np.asarray(samples["pid"]).astype(np.int64) << 32 | np.asarray(samples["tid"]).view(np.uint32)
    for thread in np.unique(threads[gaps]):
        own = gaps[threads[gaps] == thread]
        between = np.searchsorted(own, last) != np.searchsorted(own, first)
        found |= between & ((threads[first] == thread) | (threads[last] == thread))
    return found


def _is(column: pa.Array, name: str) -> NDArray[np.bool_]:
    codes = _codes(column)
    names = column.dictionary.to_pylist()
    return codes == names.index(name) if name in names else np.zeros(len(codes), np.bool_)


def _codes(column: pa.Array) -> NDArray[np.int64]:
    """The codes of a dictionary array; -1 for null."""
    return np.asarray(column.indices.cast(pa.int64()).fill_null(-1))


def _keys(samples: pa.Table, rows: Index) -> NDArray[np.uint64]:
    """The key of each row: the process, its program and the function in the high half, sp in the low half."""
    function = _codes(samples["function"].combine_chunks())[rows] + 1  # 0 for none
    pid = np.asarray(samples["pid"])[rows].astype(np.int64)
    who = _ranks(pid << 32 | executed.programs(samples)[rows]) * (int(function.max()) + 1) + function
    keys: NDArray[np.uint64] = who.astype(np.uint64) << np.uint64(32) | np.asarray(samples["sp"])[rows]
    return keys


def _ranks(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each number's rank among the different ones. Mostly there is one process, which needs no sort."""
    if (numbers == numbers[0]).all():
        return np.zeros(len(numbers), np.int64)
    ranks: NDArray[np.int64] = np.unique(numbers, return_inverse=True)[1].astype(np.int64)
    return ranks


def _same_as_next(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    return np.append(keys[1:] == keys[:-1], False)


def _table(samples: pa.Table, rows: Index, first: Index, last: Index) -> pa.Table:
    """The table of calls. `first` and `last` are the places in `rows` of the entry and the return of each, in order of
    entry.
    """
    entries, returns = samples.take(pa.array(rows[first])), np.asarray(samples["time"])[rows[last]]
    start = np.asarray(entries["time"])
    columns: dict[str, Any] = {name: entries[name] for name in ("function", "pid", "tid", "thread")}
    columns |= {"start": start, "duration": returns - start}
    columns["depth"] = _depths(np.asarray(entries["pid"]), np.asarray(entries["tid"]), first, last).astype(np.int32)
    return pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _depths(pid: NDArray[np.int32], tid: NDArray[np.int32], first: Index, last: Index) -> NDArray[np.int64]:
    """The depth of each call: the number of calls of its thread that are open just before it starts."""
    _, thread = np.unique(pid.astype(np.int64) << 32 | tid.view(np.uint32), return_inverse=True)
    step = np.repeat(np.array([1, -1]), len(first))
    order = np.lexsort((np.concatenate([first, last]), np.concatenate([thread, thread])))
    running = np.cumsum(step[order]) - step[order]  # each thread's steps sum to 0, so one sum does for all
    depths = np.empty(len(step), np.int64)
    depths[order] = running
    return depths[: len(first)]
