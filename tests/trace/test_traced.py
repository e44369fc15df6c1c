# SPDX-License-Identifier: LGPL-2.1-or-later
"""A trace's description survives being written to a file, and a file is not trusted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gilk.errors import StoreError
from gilk.trace.about import Tally
from gilk.trace.traced import Omitted, TraceDescription, Unended, Unfollowed

TRACED = TraceDescription(10, 200, "call:main:3", "for:200ms", "libc*", (Omitted("f", "prog", 50, 1000),), 3)
TRACED = replace(
    TRACED,
    unfollowed=(Unfollowed("g", "prog", "no-room", ("f", "main")), Unfollowed("h", "libc.so.6", "rseq")),
    unended=(Unended("i", "prog", "no-room"),),
)


def test_the_description_of_a_trace_is_read_back() -> None:
    tally = Tally(drops=1, trace=TRACED)
    assert Tally.from_json(tally.to_json()) == tally
    assert Tally.from_json(replace(tally, trace=None).to_json()).trace is None


def test_an_old_file_without_a_trace_description_is_read() -> None:
    raw = json.loads(Tally().to_json())
    del raw["trace"]
    assert Tally.from_json(json.dumps(raw)).trace is None


def test_an_old_file_without_lists_of_functions_is_read() -> None:
    raw = json.loads(Tally(trace=TRACED).to_json())
    del raw["trace"]["unfollowed"], raw["trace"]["unended"], raw["refused"]
    tally = Tally.from_json(json.dumps(raw))
    assert tally.trace == replace(TRACED, unfollowed=(), unended=())
    assert tally.refused == {}


@pytest.mark.parametrize(
    "wrong",
    [
        *([], "x", 1, {}, {"omitted": 1}, {"omitted": [1]}),
        {"start_ns": "0", "omitted": []},
        {"unknown": 0, "omitted": []},
        {"omitted": [{"function": "f", "image": "", "from_ns": 0, "calls": "1"}]},
        {"omitted": [{"function": "f", "image": "", "from_ns": 0}]},
        {"start_event": None, "omitted": []},
        {"stop_ns": True, "omitted": []},
        {"stop_ns": 10**30, "omitted": []},
        *({"omitted": [], "unfollowed": wrong} for wrong in (1, [1], "x", [{}], [{"function": "f"}])),
        {"omitted": [], "unfollowed": [{"function": "f", "image": "", "reason": "", "callers": "main"}]},
        {"omitted": [], "unfollowed": [{"function": "f", "image": "", "reason": "", "callers": [1]}]},
        *({"omitted": [], "unended": wrong} for wrong in (1, [1], "x", [{}], [{"function": "f"}])),
    ],
    ids=str,
)
def test_bad_trace_malformed_trace_descriptions_are_refused(wrong: object) -> None:
    raw = {**json.loads(Tally().to_json()), "trace": wrong}
    with pytest.raises(StoreError) as caught:
        Tally.from_json(json.dumps(raw))
    assert caught.value.slug == "bad-trace"


def test_bad_trace_malformed_reasons_are_refused() -> None:
    raw = {**json.loads(Tally().to_json()), "refused": {"f:@0:pre": 7}}
    with pytest.raises(StoreError) as caught:
        Tally.from_json(json.dumps(raw))
    assert caught.value.slug == "bad-trace"
