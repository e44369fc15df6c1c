# SPDX-License-Identifier: LGPL-2.1-or-later
"""A flow agrees with a machine that keeps its own books, and is balanced whatever the records are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gilk.trace.about import Tally
from gilk.trace.flow import Flow
from gilk.trace.flow_build import build
from gilk.trace.traced import Omitted, TraceDescription
from tests.effort import counted
from tests.trace.machine import Machine, about, run, samples

Row = dict[str, Any]


def flow_of(table: pa.Table, tally: Tally | None = None) -> Flow:
    return build(table, about(), tally or Tally())


def assert_balanced(flow: Flow) -> None:
    """Assert that each row lies within its parent, which comes before it, and after its elder siblings."""
    rows = flow.table.to_pylist()
    last: dict[object, int] = {}
    for number, row in enumerate(rows):
        parent = row["parent"]
        track = (row["pid"], row["tid"], row["stack"])
        assert row["duration"] >= 0
        assert row["depth"] == (rows[parent]["depth"] + 1 if parent >= 0 else 0)
        assert parent < number
        if parent >= 0:
            above = rows[parent]
            assert (above["pid"], above["tid"], above["stack"]) == track
            assert above["start"] <= row["start"]
            assert row["start"] + row["duration"] <= above["start"] + above["duration"]
        key = (parent, track)
        assert last.get(key, row["start"]) <= row["start"]
        last[key] = row["start"] + row["duration"]


def expected(machine: Machine) -> list[tuple[object, ...]]:
    """The rows by thread, in the order of entries, which is the order of the tree."""
    ends = machine.now
    first: dict[int, int] = {}
    for call in machine.calls:
        first.setdefault(call.tid, len(first))
    calls = sorted(machine.calls, key=lambda call: (first[call.tid], call.start))
    place = {id(call): number for number, call in enumerate(calls)}
    found = []
    for call in calls:
        end = ends if call.end is None else call.end
        state = "left" if call.left and call.end is not None else "open" if call.end is None else "whole"
        parent = place[id(call.parent)] if call.parent else -1
        found.append((call.tid, call.function, call.lane, call.start, end - call.start, state, parent))
    return found


def seen(flow: Flow) -> list[tuple[object, ...]]:
    names = ("tid", "function", "lane", "start", "duration", "state", "parent")
    return [tuple(row[name] for name in names) for row in flow.table.to_pylist()]


@pytest.mark.parametrize("seed", range(40))
def test_the_flow_agrees_with_the_simulated_machine(seed: int) -> None:
    machine = run(seed, 400, threads=1 + seed % 3, kernel=seed % 2 == 1)
    flow = flow_of(machine.samples())
    assert_balanced(flow)
    assert seen(flow) == expected(machine)
    assert flow.is_state("left").any()  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(40))
def test_a_trace_begun_in_the_middle_has_calls_under_way_that_return(seed: int) -> None:
    machine = run(seed, 600, threads=1, kernel=seed % 2 == 1)
    begin = 200
    flow = flow_of(machine.samples(begin))
    assert_balanced(flow)
    start = machine.records[begin][0]
    under_way = [c for c in machine.calls if c.start < start and c.end is not None and c.end >= start and not c.left]
    before = [row for row in flow.table.to_pylist() if row["state"] == "before"]
    assert [row["function"] for row in before] == [call.function for call in under_way]
    assert all(row["start"] == start for row in before)
    assert [row["duration"] for row in before] == [(call.end or 0) - start for call in under_way]


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["time-entry", "time-return", "time-head", "gap", "stamp"]),
        *(st.sampled_from(["a", "b", "x"]), st.integers(0, 6), st.integers(1, 2), st.booleans()),
    ),
    max_size=30,
)


@given(EVENTS)
def test_for_any_records_every_entry_is_a_row_and_rows_nest(
    events: list[tuple[str, str, int, int, bool]],
) -> None:
    records = []
    entries: dict[tuple[str, int], bool] = {}
    wanted = 0
    for n, (kind, function, sp, tid, far) in enumerate(events):
        pointer = 0x1000 + 16 * sp + (0x100_0000 if far else 0)
        key = (function, pointer)
        wanted += kind == "time-entry" or (kind == "time-head" and not entries.get(key))
        if kind in ("time-entry", "time-return", "time-head"):
            entries[key] = kind != "time-return"
        records.append((n // 2, 1, tid, function, "kernel" if function == "x" else "user", kind, pointer))
    flow = flow_of(samples(records))
    assert_balanced(flow)
    found = flow.table.num_rows - int(flow.is_state("before").sum())  # type: ignore[arg-type]
    assert found == wanted


def records(*events: tuple[str, str, int, int]) -> pa.Table:
    """Samples of (kind, function, sp, tid), 10 ns apart."""
    return samples([(10 * n, 1, tid, f, "user", kind, sp) for n, (kind, f, sp, tid) in enumerate(events)])


def test_a_function_that_jumps_back_to_its_start_is_one_call() -> None:
    events = [("time-head", "a", 96, 1), ("time-head", "a", 96, 1), ("time-entry", "b", 64, 1)]
    flow = flow_of(
        records(*events, ("time-return", "b", 64, 1), ("time-head", "a", 96, 1), ("time-return", "a", 96, 1))
    )
    assert [(r[1], r[3], r[4], r[5]) for r in seen(flow)] == [("a", 0, 50, "whole"), ("b", 20, 10, "whole")]


def test_calls_of_coroutines_are_on_stacks_of_their_own() -> None:
    far = 0x800_0000
    flow = flow_of(
        records(
            *(("time-entry", "a", 96, 1), ("time-entry", "b", far, 1), ("time-return", "a", 96, 1)),
            *(("time-entry", "c", far - 32, 1), ("time-return", "c", far - 32, 1), ("time-return", "b", far, 1)),
        )
    )
    rows = [(r["function"], r["duration"], r["state"], r["stack"], r["depth"]) for r in flow.table.to_pylist()]
    assert rows == [("a", 20, "whole", 0, 0), ("b", 40, "whole", 1, 0), ("c", 10, "whole", 1, 1)]
    assert [list(track) for track in flow.tracks] == [[0], [1, 2]]


def test_a_call_across_dropped_records_is_cut_or_divided_in_two() -> None:
    cut = flow_of(records(("time-entry", "a", 96, 1), ("gap", "a", 0, 1), ("time-return", "a", 96, 1)))
    assert [(r[1], r[3], r[4], r[5]) for r in seen(cut)] == [("a", 0, 20, "cut")]
    assert cut.gaps == ((1, 1, 10),)
    two = flow_of(
        records(
            ("time-entry", "a", 96, 1), ("gap", "a", 0, 1), ("time-entry", "b", 112, 1), ("time-return", "a", 96, 1)
        )
    )
    assert [(r[1], r[3], r[4], r[5]) for r in seen(two)] == [
        ("a", 0, 20, "left"), ("b", 20, 10, "open"), ("a", 20, 10, "before"),
    ]  # fmt: skip


def test_a_return_after_dropped_records_gets_a_call_from_the_gap_on() -> None:
    flow = flow_of(
        records(
            ("time-entry", "b", 64, 1), ("time-return", "b", 64, 1), ("gap", "a", 0, 1), ("time-return", "a", 96, 1)
        )
    )
    assert [(r[1], r[3], r[5]) for r in seen(flow)] == [("b", 0, "whole"), ("a", 10, "before")]


def test_open_calls_last_until_the_stop_or_the_end_of_their_thread() -> None:
    tally = Tally(trace=TraceDescription(start_ns=0, stop_ns=1000, omitted=(Omitted("d", "prog", 5, 7),)))
    flow = flow_of(
        records(("time-entry", "a", 96, 1), ("time-entry", "b", 64, 1), ("time-entry", "_exit", 64, 2)), tally
    )
    assert [(r[1], r[4], r[5]) for r in seen(flow)] == [("a", 1000, "open"), ("b", 990, "open"), ("_exit", 0, "left")]
    assert (flow.start_ns, flow.stop_ns, flow.omitted[0].calls) == (0, 1000, 7)


def test_a_call_ends_when_its_function_is_left_out() -> None:
    tally = Tally(trace=TraceDescription(start_ns=0, stop_ns=1000, omitted=(Omitted("b", "prog", 25, 7),)))
    events = [("time-entry", "a", 96, 1), ("time-entry", "b", 64, 1), ("time-entry", "c", 32, 1)]
    more = [("time-return", "c", 32, 1), ("time-entry", "d", 48, 1), ("time-return", "d", 48, 1)]
    flow = flow_of(records(*events, *more), tally)
    assert [(r[1], r[3], r[4], r[5], r[6]) for r in seen(flow)] == [
        ("a", 0, 1000, "open", -1), ("b", 10, 15, "left", 0), ("c", 20, 5, "left", 1), ("d", 40, 10, "whole", 0)
    ]  # fmt: skip


def test_a_flow_can_be_reduced_to_some_threads() -> None:
    flow = flow_of(run(3, 300, threads=3).samples()).only(("t2", "3"))
    assert_balanced(flow)
    assert set(flow.table["tid"].to_pylist()) == {2, 3}


def test_a_flow_can_be_limited_in_depth() -> None:
    table = records(
        ("time-entry", "f", 96, 1), ("time-entry", "g", 64, 1), ("time-entry", "h", 32, 1),
        ("time-return", "h", 32, 1), ("time-return", "g", 64, 1), ("time-return", "f", 96, 1),
    )  # fmt: skip
    flow = flow_of(table, Tally(trace=TraceDescription(0, 100, depth=2)))
    assert flow.table["function"].to_pylist() == ["f", "g"]
    assert flow.table["parent"].to_pylist() == [-1, 0]
    assert flow_of(table, Tally(trace=TraceDescription(0, 100))).table.num_rows == 3


def test_self_times_exclude_callees() -> None:
    flow = flow_of(
        records(
            ("time-entry", "a", 96, 1),
            ("time-entry", "b", 64, 1),
            ("time-return", "b", 64, 1),
            ("time-return", "a", 96, 1),
        )
    )
    assert flow.self_times.tolist() == [20, 10]


def test_no_records_give_an_empty_flow() -> None:
    flow = flow_of(samples([]))
    assert (flow.table.num_rows, flow.tracks, flow.self_times.tolist()) == (0, [], [])


def test_a_million_calls_are_paired_by_whole_columns() -> None:
    """The calls are nested twenty deep, in four threads, within a call that does not return."""
    count, deep = 1_000_000, 20
    one = np.concatenate([np.arange(deep), np.arange(deep)[::-1]])
    level = np.tile(one, count // deep)
    is_entry = np.tile(np.repeat([True, False], deep), count // deep)
    tid = np.repeat(np.arange(count // deep) % 4 + 1, 2 * deep)
    names = pa.array(["a", "b"])
    kinds = pa.DictionaryArray.from_arrays(
        pa.array(np.where(is_entry, 0, 1).astype(np.int32)), pa.array(["time-entry", "time-return"])
    )
    function = pa.DictionaryArray.from_arrays(pa.array((level % 2).astype(np.int32)), names)
    columns = {
        "time": np.arange(2 * count), "pid": np.ones(2 * count, np.int32), "tid": tid.astype(np.int32),
        "thread": function, "point": function, "function": function, "kind": kinds,
        "sp": (0x10000 + tid * 0x1000000 - 32 * level).astype(np.uint32),
    }  # fmt: skip
    head = [(-10, 1, each, "d", "user", "time-entry", 0x10020 + each * 0x1000000) for each in range(1, 5)]
    table = pa.concat_tables([samples(head), pa.table(columns).cast(samples([]).schema)]).unify_dictionaries()
    flow, calls = counted(lambda: flow_of(table))
    assert flow.table.num_rows == count + 4
    assert flow.column("depth").max() == deep
    assert flow.is_state("open").sum() == 4  # type: ignore[arg-type]
    assert calls < count // 100
