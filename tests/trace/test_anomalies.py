# SPDX-License-Identifier: LGPL-2.1-or-later
"""A planted fault is the first finding; without a fault there is no finding."""

from __future__ import annotations

import random
from typing import Any

from gilk.trace.about import Tally
from gilk.trace.anomalies import Finding, find
from gilk.trace.flow_build import build
from tests.trace.machine import about, nested, samples

USER = ["main", "frame", "decode", "read", "show", "sync", "poll"]
KERNEL = ("sys", "wait")


def frame(walk: random.Random, stall: int = 0, **changed: Any) -> tuple[Any, ...]:
    """A frame of a film: 40 us, give or take 5."""
    parts: dict[str, Any] = {
        "read": ("read", walk.randrange(800, 1200), ("k:sys", 300, ("k:wait", walk.randrange(900, 1100) + stall))),
        "decode": ("decode", walk.randrange(29_000, 34_000)),
        "show": ("show", 5000),
    }
    parts |= changed
    return ("frame", 1000, *(part for part in parts.values() if part))


def found_in(*frames: Any) -> list[Finding]:
    return find(build(samples(nested(("main", 100, *frames))), about(USER, KERNEL), Tally()))


def names(finding: Finding) -> str:
    return " ".join(symbol[0] for symbol in finding.path)


def test_a_trace_without_faults_has_no_anomalies() -> None:
    walk = random.Random(1)
    assert found_in(*(frame(walk) for _ in range(200))) == []


def test_a_stall_is_attributed_to_the_kernel_function_before_its_callers() -> None:
    walk = random.Random(2)
    found = found_in(*(frame(walk, 12_000_000 if n == 137 else 0) for n in range(200)))
    assert [(each.sort, names(each)) for each in found] == [
        ("slow", "main frame read sys wait"),
        ("slow", "main frame"),
        ("slow", "main frame read"),
        ("slow", "main frame read sys"),
    ]
    assert found[0].own > 11_900_000
    assert all(each.own < 10_000 and "because of" in each.why for each in found[1:])
    assert found[0].siblings == 199


def test_a_call_that_does_not_return_is_the_first_anomaly() -> None:
    walk = random.Random(3)
    frames = [frame(walk, 5_000_000 if n == 20 else 0) for n in range(50)]
    found = found_in(*frames, frame(walk, show=("!show", 10)))
    assert (found[0].sort, names(found[0])) == ("unfinished", "main frame show")
    assert names(found[1]) == "main frame read sys wait"


def test_additional_missing_and_reordered_callees_are_anomalies() -> None:
    walk = random.Random(4)
    frames = [frame(walk) for _ in range(60)]
    frames[10] = frame(walk, sync=("sync", 100))
    frames[20] = frame(walk, show=None)
    frames[30] = ("frame", 1000, *frames[30][:1:-1])
    found = found_in(*frames)
    assert {each.sort for each in found} == {"calls"}
    why = " / ".join(each.why for each in sorted(found, key=lambda each: each.row))
    assert "it calls sync, which others do not / it does not call show, which others do / " in why
    assert why.endswith("it calls the same functions in another order")


def test_more_rounds_of_a_loop_are_no_anomaly() -> None:
    walk = random.Random(5)
    frames = [("frame", 1000, *(("read", 100) for _ in range(walk.randrange(1, 9)))) for _ in range(100)]
    assert [each for each in found_in(*frames) if each.sort == "calls"] == []


def test_a_call_left_by_a_jump_among_many_that_returned_is_an_anomaly() -> None:
    walk = random.Random(6)
    frames = [frame(walk, decode=("~decode" if n == 33 else "decode", 30_000)) for n in range(60)]
    left = [each for each in found_in(*frames) if each.sort == "left"]
    assert [names(each) for each in left] == ["main frame decode"]
