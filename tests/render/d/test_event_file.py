# SPDX-License-Identifier: LGPL-2.1-or-later
"""Events in a Parquet file: all are there, in their types, at every moment; other files are refused."""

from __future__ import annotations

import errno
import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gilk.errors import StoreError
from gilk.lang.d.probes import DProbe
from gilk.lang.data import Aggregating, Aggregation, Function
from gilk.render.d import event_file
from gilk.render.d.as_table import SCHEMA
from gilk.render.d.event_file import EventFile
from gilk.render.query import answer, tables
from gilk.trace import table_file
from gilk.trace.d import events
from gilk.trace.d.values import Bytes, Distribution, Floating, Integer, Stack, Symbol, Text, Value
from gilk.trace.table_file import partial_path

PROBE = DProbe(7, "pid1", "a.out", "hot", "entry")
FIRED = events.ProbeFired(PROBE, cpu=1, clause=2, time=2**63 + 5, pid=10, tid=2**32 - 1)
COUNTED = Aggregation(1, "sizes", Aggregating(Function.COUNT), (), 0)
SPREAD = Aggregation(2, "", Aggregating(Function.LQUANTIZE, 0, 20, 10), (), 0)


def printed(*values: Value) -> events.Printed:
    return events.Printed("trace", values)


def rows(path: Path) -> list[dict[str, Any]]:
    """For each event, the columns that have a value."""
    table = event_file.read(path)["events"]
    return [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]


def written(path: Path, *given: events.Event) -> Path:
    file = EventFile(path, "0")
    for event in given:
        file.add(event)
    return file.close()


def test_a_record_and_its_printed_text_are_in_the_file(tmp_path: Path) -> None:
    text = events.Printed("printf", (Integer(6, 4),), "n = %d\n")
    fired, told, later = rows(written(tmp_path / "x", FIRED, text, events.RecordEnded(), events.Noted("later")))
    known = {"record": 1, "time": 2**63 + 5, "cpu": 1, "pid": 10, "tid": 2**32 - 1, "probe": str(PROBE), "clause": 2}
    assert fired == {"type": "fired", **known}
    assert {name: told[name] for name in known} == known
    assert (told["type"], told["action"], told["format"], told["text"]) == ("printed", "printf", "n = %d\n", "n = 6\n")
    assert later == {"type": "noted", "text": "later"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Integer(-1, 8), {"integer": -1}),
        (Integer(-1, 8, signed=False), {"unsigned": 2**64 - 1}),
        (Integer(300, 1), {"integer": 44, "unsigned": 44}),
        (Floating(0.5), {"real": 0.5}),
        (Text("grün".encode()), {"text": "grün"}),
        (Text(b"a\xff"), {"bytes": b"a\xff"}),
        (Symbol(b"libc.so.6`malloc"), {"text": "libc.so.6`malloc"}),
        (Bytes(b"\0\1"), {"bytes": b"\0\1"}),
        (Stack((b"a`f+0x1", b"b\xff")), {"stack": ["a`f+0x1", "b\\xff"]}),
    ],
)
def test_values_have_the_members_of_their_types(tmp_path: Path, value: Value, expected: dict[str, object]) -> None:
    (row,) = rows(written(tmp_path / "x", printed(value)))
    (found,) = row["data"]
    assert {name: each for name, each in found.items() if each is not None} == expected


def test_aggregations_have_a_row_for_each_key_and_processor(tmp_path: Path) -> None:
    spread = Distribution(SPREAD.what, (0, 4, 2, 0), normal=2)
    row = events.SnapshotRow((Text(b"k"),), (Integer(3), spread), (((0, Integer(1)), (1, Integer(2))), ()))
    snapshot = events.Snapshot((events.Column(COUNTED), events.Column(SPREAD, 2)), (row,), final=True)
    found = answer(
        event_file.read(written(tmp_path / "x", snapshot)),
        'SELECT aggregation, "function", keys[1].text, cpu, total.integer, total.buckets, normal FROM aggregations',
    )
    buckets = [("< 0", -1, 0), ("0", 0, 2), ("10", 10, 1), (">= 20", 21, 0)]
    drawn = [{"bucket": name, "value": value, "count": count} for name, value, count in buckets]
    assert found["rows"] == [
        ["@sizes", "count", "k", None, 3, None, 1],
        ["@sizes", "count", "k", 0, 1, None, 1],
        ["@sizes", "count", "k", 1, 2, None, 1],
        ["@", "lquantize", "k", None, None, drawn, 2],
    ]


def test_impossible_numbers_are_written_without_an_error(tmp_path: Path) -> None:
    huge = 2**64 + 1
    wrong = (
        events.Dropped(events.DropKind.PRINCIPAL, 0, huge),
        events.Faulted(PROBE, 1, 12345, huge),
        events.ActionFailed(PROBE, 1, "freopen", "no such file \udcff"),
        events.Corrupted("a record"),
    )
    told = rows(written(tmp_path / "x", *wrong))
    assert [row["type"] for row in told] == ["dropped", "faulted", "failed", "noted"]
    assert told[2]["action"] == "freopen"


def test_a_killed_writer_leaves_everything_up_to_the_last_batch(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    file = EventFile(path, "0")
    for number in range(10_000):
        file.add(printed(Integer(number)))
    file.abandon()
    found = [row["data"][0]["integer"] for row in rows(path)]
    assert not path.exists() and found == list(range(8192))


@contextmanager
def room(size: int) -> Iterator[None]:
    """In the block, files of this process may not become larger than ``size``."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_reported_once_and_loses_only_later_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    file, told = EventFile(path, "0"), []
    with room(200_000):
        for number in range(100_000):
            try:
                file.add(printed(Text(str(number * 7919).encode())))
            except StoreError as error:
                told.append(error.slug)
        assert file.close() == partial_path(path)
    assert told == ["disk-full"] and not path.exists()
    assert len(rows(path)) + file.unwritten == 100_000


def test_a_failed_write_leaves_no_finished_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds whatever the reason, and though later writes succeed."""
    path = tmp_path / "x.parquet"
    file = EventFile(path, "0")
    file.add(printed(Integer(1)))
    file._flush()
    file.add(printed(Integer(2)))

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(table_file._Sink, "write", broken)
        with pytest.raises(OSError, match="input/output"):
            file._flush()
    file.add(printed(Integer(3)))
    assert file.close() == partial_path(path) and not path.exists()
    assert file.unwritten == 1


@pytest.mark.parametrize("notes", [None, b"", b"{", b"[]", b'{"version": 2}', b'{"version": 1}'])
def test_tables_that_are_no_events_are_refused(tmp_path: Path, notes: bytes | None) -> None:
    path = tmp_path / "x"
    schema = pa.schema([("type", pa.string())]).with_metadata({} if notes is None else {table_file.EVENTS_KEY: notes})
    pq.write_table(pa.table({"type": ["a"]}, schema), path)
    with pytest.raises(StoreError) as refused:
        event_file.read(path)
    assert refused.value.slug == "bad-trace"


def test_an_empty_table_with_the_right_columns_is_a_file_of_events(tmp_path: Path) -> None:
    path = tmp_path / "x"
    notes = {table_file.EVENTS_KEY: json.dumps({"version": 1}).encode()}
    pq.write_table(SCHEMA.with_metadata(notes).empty_table(), path)
    assert answer(tables(path), "SELECT count(*) FROM events")["rows"] == [[0]]


def test_damage_anywhere_is_refused_or_harmless(tmp_path: Path) -> None:
    good = written(tmp_path / "x", FIRED, printed(Text(b"abc" * 50)), printed(Integer(5))).read_bytes()
    path = tmp_path / "y"
    for at in range(0, len(good), 37):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :])
        try:
            event_file.read(path)
        except StoreError as error:
            assert error.slug == "bad-trace"
