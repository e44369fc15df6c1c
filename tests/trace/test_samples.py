# SPDX-License-Identifier: LGPL-2.1-or-later
"""Chunks of several threads and classes become one table in order of time, with names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gilk.trace.clock import Clock
from gilk.trace.drain import Chunk, Identity
from gilk.trace.layout import RECORDS, REGISTERS
from gilk.trace.probes import ProbeRow
from gilk.trace.samples import Samples

PROBES = [
    ProbeRow(3, "f:entry", "f", "prog", "time-entry"),
    ProbeRow(4, "f:return", "f", "prog", "time-return"),
    ProbeRow(9, "g:entry", "g", "prog", "args"),
    ProbeRow(70_000, "g:@1:pre", "g", "prog", "other"),
    ProbeRow(12, "g:@2:pre", "g", "prog", "regs"),
    ProbeRow(0, "h:entry", "h", "prog", "count", 0),
]
CLOCK = Clock(0, 0, 2.0)
EVERY = frozenset({0, 1, 2, 3})


def chunk(number: int, rows: list[dict[str, Any]], tid: int = 1) -> Chunk:
    records = np.zeros(len(rows), RECORDS[number])
    for record, row in zip(records, rows, strict=True):
        for name, value in row.items():
            if name == "text":
                record["length"] = len(value)
                record["text"][: len(value)] = np.frombuffer(value, np.uint8)
            else:
                record[name] = value
    return Chunk(Identity(100, tid, 0), number, records)


def build(*polls: list[Chunk], classes: frozenset[int] = EVERY, start: int = 0) -> tuple[list[pa.Table], Samples]:
    samples = Samples(PROBES, CLOCK, start, classes, lambda pid, tid: f"worker-{tid}")
    tables = [samples.add(poll) for poll in polls]
    return [*tables, samples.flush()], samples


def test_each_kind_of_record_fills_its_own_columns() -> None:
    registers = list(range(18))
    chunks = [
        chunk(0, [{"tsc": 10, "iid": 3, "sp": 0xFFFFFFF0}]),
        chunk(1, [{"tsc": 20, "iid": 70_000, "value": (1 << 64) - 5, "extra": 6}], tid=2),
        chunk(2, [{"tsc": 30, "iid": 9, "arg": [1, 2, 3, 4, 5, (1 << 64) - 1]}]),
        chunk(3, [{"tsc": 40, "iid": 12, "reg": registers}, {"tsc": 50, "iid": 70_000, "text": b"hi \xff"}]),
    ]
    rows = build(chunks)[0][-1].to_pylist()
    assert [row["kind"] for row in rows] == ["time-entry", "integer", "args", "regs", "text"]
    assert [row["time"] for row in rows] == [5, 10, 15, 20, 25]
    assert [row["point"] for row in rows] == ["f:entry", "g:@1:pre", "g:entry", "g:@2:pre", "g:@1:pre"]
    assert [row["function"] for row in rows] == ["f", "g", "g", "g", "g"]
    assert [row["thread"] for row in rows] == ["worker-1", "worker-2", "worker-1", "worker-1", "worker-1"]
    assert [row["value"] for row in rows] == [None, -5, None, None, None]
    assert rows[0]["sp"] == 0xFFFFFFF0
    assert [rows[2][f"arg{n}"] for n in range(6)] == [1, 2, 3, 4, 5, (1 << 64) - 1]
    assert [rows[3][name] for name in REGISTERS] == registers
    assert [row["rax"] for row in rows] == [None, None, None, 0, None]
    assert [row["text"] for row in rows] == [None] * 4 + ["hi \ufffd"]


def test_only_classes_in_use_have_columns() -> None:
    tables, _ = build([chunk(0, [{"tsc": 1, "iid": 3}])], classes=frozenset({0}))
    assert tables[-1].column_names == ["time", "pid", "tid", "thread", "point", "function", "kind", "sp", "value"]


def test_threads_are_merged_by_time_across_polls() -> None:
    random = np.random.default_rng(3)
    times = np.sort(random.choice(100_000, 3000, replace=False))
    polls: list[list[Chunk]] = []
    for part in np.array_split(times, 10):
        owner = random.integers(1, 4, len(part))
        polls.append(
            [chunk(0, [{"tsc": t * 2, "iid": 3} for t in part[owner == tid]], int(tid)) for tid in np.unique(owner)]
        )
    tables, samples = build(*polls)
    assert pa.concat_tables(tables)["time"].to_pylist() == times.tolist()
    assert samples.late == 0


def test_a_record_that_comes_one_poll_late_is_still_in_order() -> None:
    tables, samples = build(
        [chunk(0, [{"tsc": t, "iid": 3} for t in (2, 8)])],
        [chunk(0, [{"tsc": 4, "iid": 3}], tid=2), chunk(0, [{"tsc": 10, "iid": 3}])],
    )
    assert [table["time"].to_pylist() for table in tables] == [[], [1, 2, 4], [5]]
    assert samples.late == 0


def test_records_that_come_too_late_are_counted() -> None:
    tables, samples = build(*[[chunk(0, [{"tsc": t, "iid": 3}])] for t in (10, 20, 30, 4)])
    assert pa.concat_tables(tables)["time"].to_pylist() == [5, 10, 2, 15]
    assert samples.late == 1


def test_records_of_an_unknown_probe_are_kept_without_a_name() -> None:
    tables, samples = build([chunk(0, [{"tsc": 1, "iid": iid} for iid in (1, 3, 5, 4_000_000_000)])])
    assert tables[-1]["point"].to_pylist() == [None, "f:entry", None, None]
    assert tables[-1]["kind"].to_pylist() == ["stamp", "time-entry", "stamp", "stamp"]
    assert samples.unknown == 3


def test_hostile_records_do_no_harm() -> None:
    random = np.random.default_rng(1)
    chunks = [
        Chunk(Identity((1 << 32) - 1, 1 << 31, 0), n, np.frombuffer(random.bytes(100 * dtype.itemsize), dtype))
        for n, dtype in enumerate(RECORDS)
    ]
    tables, _ = build(chunks, chunks, start=12345)
    assert sum(table.num_rows for table in tables) == 800


def test_times_are_counted_from_the_start() -> None:
    assert build([chunk(0, [{"tsc": 2000, "iid": 3}])], start=300)[0][-1]["time"].to_pylist() == [700]


@pytest.mark.parametrize("length", [1, 232, 500])
def test_text_is_never_longer_than_its_record(length: int) -> None:
    given = chunk(3, [{"tsc": 1, "iid": 70_000, "text": b"a" * min(length, 232)}])
    given.records["length"] = length
    assert build([given])[0][-1]["text"].to_pylist() == ["a" * min(length, 232)]


def test_dropped_records_leave_a_gap_row() -> None:
    made = chunk(1, [{"tsc": 100, "iid": 70_000, "value": 1}, {"tsc": 200, "iid": 70_000, "value": 2}])
    tables, samples = build([Chunk(made.identity, made.number, made.records, gaps=(1,))])
    rows = pa.concat_tables(tables).to_pylist()
    assert [(row["kind"], row["point"], row["value"], row["time"]) for row in rows] == [
        ("integer", "g:@1:pre", 1, 50),
        ("gap", None, None, 96),
        ("integer", "g:@1:pre", 2, 100),
    ]
    assert (samples.gaps, samples.unknown) == (1, 0)
