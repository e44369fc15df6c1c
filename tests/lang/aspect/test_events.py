# SPDX-License-Identifier: LGPL-2.1-or-later
"""The format of events: the meaning of a line, and the named error for a hostile one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gilk.errors import UsageError
from gilk.lang.aspect.events import AspectEvent, EventKind, read_events
from gilk.lang.aspect.model import AspectModel
from tests.lang.aspect.automata import calling, element, sequence


def one(**keys: Any) -> AspectEvent:
    return read_events([json.dumps(keys)])[0]


def test_a_call_has_arguments_and_may_name_its_image() -> None:
    event = one(call="libc:open", args=["/a", 0], pid=7, at="2s", kernel=True, values={"x": 1})
    assert (event.image, event.function, event.arguments) == ("libc", "open", ("/a", 0))
    assert (event.pid, event.tid, event.at, event.kernel, event.values) == (7, 7, 2_000_000_000, True, (("x", 1),))


def test_two_colons_are_a_part_of_a_function_name() -> None:
    assert one(call="A::b(int)").function == "A::b(int)"
    assert one(call="A::b(int)", image="x").image == "x"


def test_an_access_is_of_a_variable_or_an_address() -> None:
    assert one(write="x.y", value=2, old=1).variable == "x.y"
    assert (one(read=4096, size=4).address, one(read=4096, size=4).size) == (4096, 4)


def test_lines_without_a_time_keep_the_last_and_comments_are_skipped() -> None:
    found = read_events(['{"call": "a", "at": 5}', "", "# a comment", '{"call": "b"}'])
    assert [(event.at, event.line) for event in found] == [(5, 1), (5, 4)]


@pytest.mark.parametrize(
    "line",
    [
        "call",
        "[]",
        "{}",
        '{"call": "a", "return": "a"}',
        '{"call": ""}',
        '{"call": 5}',
        '{"call": "a", "call": "b"}',
        '{"call": "a", "value": 5}',
        '{"call": "a", "args": 5}',
        '{"call": "a", "args": [null]}',
        '{"call": "a", "args": [[1]]}',
        '{"call": "a", "args": [18446744073709551616]}',
        '{"call": "a", "args": [NaN]}',
        '{"call": "a", "args": [1e999]}',
        '{"call": "a", "pid": 0}',
        '{"call": "a", "pid": true}',
        '{"call": "a", "at": -1}',
        '{"call": "a", "at": "soon"}',
        '{"call": "a", "at": null}',
        '{"call": "a", "kernel": 1}',
        '{"call": "a", "values": []}',
        '{"call": "a", "values": {"x": {}}}',
        '{"call": "a", "inside": 3}',
        '{"read": -1}',
        '{"read": ""}',
        '{"write": "x", "size": 0}',
        '{"unwind": 0}',
        '{"exit": "all"}',
        '{"groups": {"A": 5}}',
        '{"groups": {"A": ["x"]}}',
        '{"groups": []}',
        '{"join": 5}',
        '{"call": "\\ud800"}',
        '{"call": "a", "args": ["\\udcff"]}',
        '{"call": "a", "values": {"\\ud800": 1}}',
        '{"write": "\\ud800"}',
        '{"groups": {"\\ud800": []}}',
        '{"call": "a"' + "[" * 100_000,
        '{"call": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"call": "a", "args": [' + "9" * 10_000 + "]}",
        '{"call": "' + "a" * (1 << 20) + '"}',
    ],
)
def test_a_line_that_is_no_event_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_events(["# first", line])
    assert caught.value.slug == "bad-events" and "line 2" in caught.value.message


def test_events_out_of_time_order_are_refused() -> None:
    with pytest.raises(UsageError, match="line 2"):
        read_events(['{"call": "a", "at": 5}', '{"call": "a", "at": 4}'])


_KEYS = (
    *EventKind,
    "args",
    "value",
    "old",
    "pid",
    "tid",
    "at",
    "kernel",
    "inside",
    "values",
    "size",
    "address",
    "function",
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["a", "process"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "A", "*p"]), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(_KEYS), _JSON, min_size=1, max_size=4).map(json.dumps) | st.text(), max_size=5
    )
)
def test_any_events_are_run_or_refused_by_name(lines: list[str]) -> None:
    model = AspectModel((sequence(element(calling("*", "n"), "*n > 1"), element(calling("a"), "return r")),))
    try:
        model.run(read_events(lines))
    except UsageError as error:
        assert error.slug in ("bad-events", "event-lacks-value")
