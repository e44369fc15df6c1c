# SPDX-License-Identifier: LGPL-2.1-or-later
"""Independent readers find in exported files the calls of a machine that keeps its own books."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from gilk.render.export import chrome, perfetto, plain, protobuf
from gilk.trace.about import Tally
from gilk.trace.reading import Trace, read
from gilk.trace.traced import Omitted, TraceDescription
from tests.trace.machine import Machine, nested, run, write

Slice = tuple[int, str, int, int]  # thread, function, start, duration


@pytest.fixture(scope="module")
def machine() -> Machine:
    return run(5, 800, threads=3, kernel=True)


@pytest.fixture(scope="module")
def trace(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    records = list(machine.records)
    records.append((records[-1][0], 1, 2, "", "user", "gap", 0))
    omitted = (Omitted("a;\n", "prog", 7, 100),)
    tally = Tally(partial=False, trace=TraceDescription(0, records[-1][0], "now", "exit", "", omitted))
    return read(write(tmp_path_factory.mktemp("x") / "a.parquet", records, tally))


def truth(machine: Machine) -> list[Slice]:
    ends = machine.records[-1][0]
    return sorted(
        (call.tid, call.function, call.start, (ends if call.end is None else min(call.end, ends)) - call.start)
        for call in machine.calls
    )


def test_the_chrome_format_has_the_machines_calls(machine: Machine, trace: Trace) -> None:
    found = json.loads("".join(chrome.parts(trace)))
    events: list[dict[str, Any]] = found["traceEvents"]
    slices = [(e["tid"], e["name"], round(e["ts"] * 1000), round(e["dur"] * 1000)) for e in events if e["ph"] == "X"]
    assert sorted(slices) == truth(machine)
    names = {(e["name"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M"}
    assert [names["thread_name", tid] for tid in (1, 2, 3)] == ["t1", "t2", "t3"]
    assert {e["cat"] for e in events if e["ph"] == "X"} == {"user", "kernel"}
    assert [e["name"] for e in events if e["ph"] == "i"] == ["records dropped", "no longer followed"]


def slices_of(packets: Any) -> tuple[list[Slice], list[str]]:
    """The slices by the rule of Perfetto's documentation: an end belongs to the last begin on its track."""
    names: dict[int, str] = {}
    tracks: dict[int, int] = {}
    waiting: dict[int, list[tuple[str, int]]] = {}
    found, instants = [], []
    for packet in packets:
        names |= {each.iid: each.name for each in packet.interned_data.event_names}
        if packet.track_descriptor.HasField("thread"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor.thread.tid
        event = packet.track_event
        if not packet.HasField("track_event"):
            continue
        if event.type == event.TYPE_SLICE_BEGIN:
            waiting.setdefault(event.track_uuid, []).append((names[event.name_iid], packet.timestamp))
        elif event.type == event.TYPE_SLICE_END:
            name, start = waiting[event.track_uuid].pop()
            found.append((tracks[event.track_uuid], name, start, packet.timestamp - start))
        else:
            instants.append(event.name)
    assert not any(waiting.values())
    return sorted(found), instants


def test_the_perfetto_format_has_the_machines_calls(machine: Machine, trace: Trace) -> None:
    data = b"".join(perfetto.parts(trace))
    parsed = perfetto_trace_pb2.Trace()
    parsed.ParseFromString(data)
    slices, instants = slices_of(parsed.packet)
    assert slices == truth(machine)
    assert instants == ["records dropped", "no longer followed"]
    parts = [*parsed.packet, *(p.track_event for p in parsed.packet), *(p.track_descriptor for p in parsed.packet)]
    assert not any(len(UnknownFieldSet(part)) for part in parts)
    assert len(parsed.SerializeToString()) == len(data)
    clocks = {clock.clock_id: clock.timestamp for clock in parsed.packet[0].clock_snapshot.clocks}
    assert clocks.keys() == {1, 3, 6}
    assert all(p.trusted_packet_sequence_id == 1 for p in parsed.packet)
    process = next(p.track_descriptor for p in parsed.packet if p.track_descriptor.HasField("process"))
    assert (process.process.pid, list(process.process.cmdline)) == (1, ["prog"])


def test_negative_and_large_numbers_are_encoded_like_protobuf() -> None:
    event = perfetto_trace_pb2.TracePacket(timestamp=2**64 - 1)
    assert protobuf.number(8, 2**64 - 1) == event.SerializeToString()
    thread = perfetto_trace_pb2.ThreadDescriptor(tid=-5)
    assert protobuf.number(2, -5) == thread.SerializeToString()


def test_folded_stacks_add_up(machine: Machine, trace: Trace) -> None:
    expected: Counter[str] = Counter()
    ends = machine.records[-1][0]
    for call in machine.calls:
        took = (ends if call.end is None else min(call.end, ends)) - call.start
        names: list[str] = []
        above = call
        while above is not None:
            names.append(above.function + ("_[k]" if above.lane == "kernel" else ""))
            above = above.parent  # type: ignore[assignment]
        path = ";".join([f"t{call.tid}", *reversed(names)])
        expected[path] += took
        if call.parent is not None:
            expected[path.rsplit(";", 1)[0]] -= took
    found = Counter[str]()
    for line in "".join(plain.folded(trace)).splitlines():
        path, _, value = line.rpartition(" ")
        found[path] += int(value)
    assert found == +expected


def test_csv_has_a_line_per_call_and_hostile_names_in_quotes(tmp_path: Path) -> None:
    names = ['=cmd|"x"', "a,b", "c\nd", "e;f"]
    records = nested(("main", 10, *((name, 10) for name in names)))
    trace = read(write(tmp_path / "a.parquet", records))
    rows = list(csv.DictReader(io.StringIO(b"".join(plain.csv(trace)).decode(), newline="")))
    assert [row["function"] for row in rows] == ["main", *names]
    assert [(row["row"], row["parent"]) for row in rows[:3]] == [("0", "-1"), ("1", "0"), ("2", "0")]
    folded = "".join(plain.folded(trace)).splitlines()
    assert len(folded) == 5
    assert folded[-1] == "t1;main;e:f 10"
    assert "c\\x0ad" in folded[-2]


def test_names_that_are_no_unicode_and_traces_without_calls_are_exported(tmp_path: Path) -> None:
    empty = read(write(tmp_path / "b.parquet", [(0, 1, 1, "", "user", "gap", 0)]))
    assert json.loads("".join(chrome.parts(empty)))["traceEvents"][0]["ph"] == "M"
    parsed = perfetto_trace_pb2.Trace()
    parsed.ParseFromString(b"".join(perfetto.parts(empty)))
    assert "".join(plain.folded(empty)) == ""
    assert b"".join(plain.csv(empty)).count(b"\n") == 1


def test_a_thread_with_two_stacks_has_two_tracks(tmp_path: Path) -> None:
    far = 0x800_0000
    events = [("time-entry", "a", 96), ("time-entry", "b", far), ("time-return", "a", 96), ("time-return", "b", far)]
    records = [(10 * n, 1, 1, f, "user", kind, sp) for n, (kind, f, sp) in enumerate(events)]
    trace = read(write(tmp_path / "a.parquet", records))
    slices = [e for e in json.loads("".join(chrome.parts(trace)))["traceEvents"] if e["ph"] == "X"]
    assert len({e["tid"] for e in slices}) == 2
    parsed = perfetto_trace_pb2.Trace()
    parsed.ParseFromString(b"".join(perfetto.parts(trace)))
    child = [p.track_descriptor for p in parsed.packet if p.track_descriptor.name]
    assert [each.name for each in child] == ["stack 2"]
