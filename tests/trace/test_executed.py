# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that processes execute while their calls are recorded: no program has a call of another."""

from __future__ import annotations

import pyarrow as pa

from gilk.trace.calls import pair
from gilk.trace.executed import mark, programs
from tests.trace.test_flow import assert_balanced, flow_of, records

FIRST = [("time-entry", "main", 96, 7), ("time-entry", "work", 64, 7), ("time-return", "work", 64, 7)]
FIRST += [("time-entry", "work", 48, 7)]
SECOND = [("time-entry", "main", 80, 7), ("time-entry", "work", 48, 7), ("time-return", "work", 48, 7)]


def two_programs(*last: pa.Table) -> pa.Table:
    """The records of a thread that executes another program amid `main` and `work`; the new program has functions of
    these names too."""
    first, second = records(*FIRST), records(*SECOND)
    second = second.set_column(0, "time", pa.array([100 + 10 * n for n in range(len(SECOND))], pa.int64()))
    other = mark(50, 1, "second", "/bin/second").select(first.column_names).cast(first.schema)
    return pa.concat_tables([first, other, second, *last])


def test_samples_are_attributed_to_the_programs_that_a_process_executed() -> None:
    table = two_programs()
    assert programs(table).tolist() == [0] * 4 + [1] * 4
    assert programs(records(*FIRST)).tolist() == [0] * 4


def test_calls_under_way_end_when_another_program_is_executed() -> None:
    """By stack pointers alone, the first `main` would seem to call the second, and the second `work` would end the
    first."""
    flow = flow_of(two_programs())
    assert_balanced(flow)
    rows = flow.table.to_pylist()
    seen = [(r["function"], r["start"], r["duration"], r["state"], r["depth"], r["stack"]) for r in rows]
    assert seen == [
        ("main", 0, 50, "left", 0, 0),
        ("work", 10, 10, "whole", 1, 0),
        ("work", 30, 20, "left", 1, 0),
        ("main", 100, 20, "open", 0, 1),
        ("work", 110, 10, "whole", 1, 1),
    ]
    assert len(flow.tracks) == 2
    assert flow.threads == {(1, 7)}


def test_calls_are_paired_only_within_one_program() -> None:
    """The return at 48 belongs to the second program's call."""
    table = pair(two_programs()).table
    assert [(row["start"], row["duration"]) for row in table.to_pylist()] == [(10, 10), (110, 10)]


def test_an_ended_process_has_no_calls_under_way() -> None:
    table = two_programs()
    flow = flow_of(pa.concat_tables([table, mark(500, 1, "second", "").select(table.column_names).cast(table.schema)]))
    assert [(r["start"] + r["duration"], r["state"]) for r in flow.table.to_pylist() if r["function"] == "main"] == [
        (50, "left"),
        (500, "left"),
    ]


def test_a_program_has_no_call_that_was_entered_before_it() -> None:
    """The process was there when the trace began, and its second program returns from a function whose entry was not
    recorded."""
    table = two_programs()
    late = records(("time-return", "start", 200, 7)).set_column(0, "time", pa.array([300], pa.int64()))
    flow = flow_of(pa.concat_tables([table, late]))
    assert_balanced(flow)
    (row,) = (row for row in flow.table.to_pylist() if row["function"] == "start")
    assert (row["start"], row["duration"], row["state"]) == (100, 200, "before")
