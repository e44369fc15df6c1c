# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pairing agrees with a naive model that walks the records one by one."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gilk.trace.calls import CallTable, pair
from gilk.trace.samples import NAME

Event = tuple[str, str, int, int, int]  # kind, function, sp, pid, tid
KINDS = ("time-entry", "time-return", "stamp", "time-head")


def table(events: list[Event], times: list[int]) -> pa.Table:
    kinds, functions, sps, pids, tids = (list(column) for column in zip(*events, strict=True)) if events else ([],) * 5
    return pa.table(
        {
            "time": pa.array(times, pa.int64()),
            "pid": pa.array(pids, pa.int32()),
            "tid": pa.array(tids, pa.int32()),
            "thread": pa.array([f"t{tid}" for tid in tids], pa.string()).cast(NAME),
            "function": pa.array(functions, pa.string()).cast(NAME),
            "kind": pa.array(kinds, pa.string()).cast(NAME),
            "sp": pa.array(sps, pa.uint32()),
        }
    )


def naive(events: list[Event], times: list[int]) -> tuple[list[tuple[object, ...]], int, int, int]:
    waiting: dict[tuple[int, str, int], int] = {}
    abandoned = orphans = 0
    pairs = []
    for n, (kind, function, sp, pid, _) in enumerate(events):
        key = (pid, function, sp)
        if kind == "time-entry" or (kind == "time-head" and key not in waiting):
            abandoned += key in waiting
            waiting[key] = n
        elif kind == "time-return":
            if key in waiting:
                pairs.append((waiting.pop(key), n))
            else:
                orphans += 1
    pairs.sort()
    rows = []
    for first, last in pairs:
        _, function, _, pid, tid = events[first]
        under_way = sum(a < first < b for a, b in pairs if events[a][3:] == (pid, tid))
        rows.append((function, times[first], times[last] - times[first], pid, tid, f"t{tid}", under_way))
    return rows, abandoned, len(waiting), orphans


def summary(calls: CallTable) -> tuple[list[tuple[object, ...]], int, int, int]:
    return [tuple(row.values()) for row in calls.table.to_pylist()], calls.abandoned, calls.open, calls.orphans


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from(["f", "g"]),
        st.sampled_from([0, 16, 0xFFFFFFF0]),
        st.sampled_from([1, 2]),
        st.sampled_from([1, 2, 3]),
    ),
    max_size=60,
)


@given(EVENTS, st.lists(st.integers(0, 3), min_size=60, max_size=60))
def test_pairing_agrees_with_the_naive_model(events: list[Event], gaps: list[int]) -> None:
    times = np.cumsum(gaps[: len(events)]).tolist()
    assert summary(pair(table(events, times))) == naive(events, times)


def test_recursive_calls_and_coroutines_on_other_threads_are_paired() -> None:
    events = [
        ("time-entry", "f", 100, 1, 1),
        ("time-entry", "f", 80, 1, 1),
        ("time-return", "f", 80, 1, 2),
        ("time-return", "f", 100, 1, 1),
    ]
    rows = summary(pair(table(events, [0, 10, 25, 40])))
    assert rows == ([("f", 0, 40, 1, 1, "t1", 0), ("f", 10, 15, 1, 1, "t1", 1)], 0, 0, 0)


def test_a_call_left_by_longjmp_is_abandoned_and_the_next_is_whole() -> None:
    events = [("time-entry", "f", 100, 1, 1), ("time-entry", "f", 100, 1, 1), ("time-return", "f", 100, 1, 1)]
    assert summary(pair(table(events, [0, 10, 25]))) == ([("f", 10, 15, 1, 1, "t1", 0)], 1, 0, 0)


def test_half_a_million_calls_take_seconds_not_minutes() -> None:
    count = 500_000
    sp = np.tile(np.repeat(np.arange(100, dtype=np.uint32), 2), count // 100)
    kinds = pa.DictionaryArray.from_arrays(pa.array(np.tile(np.array([0, 1], np.int32), count)), pa.array(KINDS))
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2 * count, np.int32)), pa.array(["f"]))
    ids = pa.array(np.ones(2 * count, np.int32))
    columns = {"time": np.arange(2 * count), "pid": ids, "tid": ids, "thread": names, "function": names}
    calls = pair(pa.table({**columns, "kind": kinds, "sp": sp}))
    assert calls.table.num_rows == count
    durations: dict[int, int] = defaultdict(int)
    for value in calls.table["duration"].value_counts().to_pylist():
        durations[value["values"]] += value["counts"]
    assert durations == {1: count}


def test_a_pair_across_dropped_records_of_its_thread_is_no_call() -> None:
    events = [
        ("time-entry", "f", 10, 1, 1),
        ("time-entry", "f", 10, 1, 2),
        ("gap", "", 0, 1, 1),
        ("time-return", "f", 10, 1, 1),
        ("time-entry", "f", 10, 1, 1),
        ("time-return", "f", 10, 1, 1),
    ]
    cut = pair(table([events[0], *events[2:]], [1, 5, 6, 7, 8]))
    assert (cut.table["start"].to_pylist(), cut.cut) == ([7], 1)
    other = pair(table([events[1], events[2], ("time-return", "f", 10, 1, 2)], [1, 5, 6]))
    assert (other.table["duration"].to_pylist(), other.cut) == ([5], 0)
