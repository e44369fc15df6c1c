# SPDX-License-Identifier: LGPL-2.1-or-later
"""A difference that was put into a trace is found, and only that."""

from __future__ import annotations

from typing import Any

from gilk.trace.about import Tally
from gilk.trace.compare import Comparison, compare
from gilk.trace.flow_build import build
from gilk.trace.traced import Omitted, TraceDescription, Unfollowed
from tests.trace.machine import about, nested, run, samples

LOOP: tuple[Any, ...] = tuple(("work", 10, ("read", 5), ("parse", 20, ("alloc", 2)), ("write", 5)) for _ in range(50))
USER = ["main", "work", "read", "parse", "alloc", "write", "poll", "apm_ioctl", "apm_bios", "other", "tiny"]


def diff(a: Any, b: Any, tally: Tally | None = None) -> Comparison:
    told = about(USER, ("sys",))
    return compare(build(samples(a), told, Tally()), build(samples(b), told, tally or Tally()))


def names(path: Any) -> str:
    return " ".join(symbol[0] for symbol in path)


def test_traces_that_differ_only_in_durations_are_equal() -> None:
    slower = tuple(("work", 30, ("read", 9), ("parse", 1, ("alloc", 7)), ("write", 5)) for _ in range(50))
    found = diff(nested(("main", 100, *LOOP)), nested(("main", 500, *slower)))
    assert found.same
    changes = {names(t.path): t.change for t in found.timings}
    assert changes["main work"] == 50 * (52 - 42)
    assert changes["main work parse"] == 50 * (8 - 22)


def test_a_random_trace_equals_itself_and_no_other() -> None:
    flows = [build(run(seed, 400, threads=2, kernel=True).samples(), about(), Tally()) for seed in (1, 1, 2)]
    assert compare(flows[0], flows[1]).same
    assert not compare(flows[0], flows[2]).same


def test_a_call_that_never_returned_is_reported_with_its_path() -> None:
    """This is the laptop that does not wake up (5.3)."""
    good = nested(("main", 10, ("apm_ioctl", 10, ("apm_bios", 5), ("apm_bios", 5)), ("poll", 5), ("other", 5)))
    hung = nested(("main", 10, ("apm_ioctl", 10, ("apm_bios", 5), ("!apm_bios", 5)), ("poll", 5)))
    found = diff(good, hung)
    assert [(u.side, names(u.path), u.other) for u in found.unfinished] == [("B", "main apm_ioctl apm_bios", "whole")]
    assert sorted(names(extra.path) for extra in found.only_a) == ["main other", "main poll"]
    assert not found.only_b
    assert not found.same


def test_a_call_that_hangs_and_that_the_good_run_never_made() -> None:
    found = diff(nested(("main", 10, ("poll", 5))), nested(("main", 10, ("poll", 5), ("other", 3, ("!apm_bios", 1)))))
    assert [(u.side, names(u.path), u.other) for u in found.unfinished] == [("B", "main other apm_bios", "")]


def test_calls_still_running_in_both_traces_are_no_difference() -> None:
    assert diff(nested(("main", 10, ("!poll", 5))), nested(("main", 90, ("!poll", 5)))).same


def test_a_missing_call_within_a_loop_is_located() -> None:
    without = [*LOOP[:20], ("work", 10, ("read", 5), ("write", 5)), *LOOP[21:]]
    found = diff(nested(("main", 100, *LOOP)), nested(("main", 100, *without)))
    assert [(names(e.path), e.calls, e.within) for e in found.only_a] == [("main work parse", 1, 1)]
    assert not found.only_b
    assert not found.moved


def test_additional_rounds_of_a_loop_are_counted_by_path() -> None:
    found = diff(nested(("main", 100, *LOOP)), nested(("main", 100, *LOOP[:40])))
    assert [(names(e.path), e.calls, e.within) for e in found.only_a] == [("main work", 10, 40)]


def test_another_order_of_calls_is_not_reported_as_missing_calls() -> None:
    turned = [*LOOP[:7], ("work", 10, ("parse", 20, ("alloc", 2)), ("read", 5), ("write", 5)), *LOOP[8:]]
    found = diff(nested(("main", 100, *LOOP)), nested(("main", 100, *turned)))
    assert [(names(m.path), m.calls) for m in found.moved] == [("main work", 1)]
    assert [names(found.moved[0].a), names(found.moved[0].b)] == ["read parse write", "parse read write"]
    assert not found.only_a and not found.only_b


def test_a_call_left_by_a_jump_in_one_trace_is_a_difference() -> None:
    found = diff(nested(("main", 9, ("read", 5), ("write", 5))), nested(("main", 9, ("~read", 5), ("write", 5))))
    assert [(names(e.path), e.a, e.b) for e in found.endings] == [("main read", "whole", "left")]


def test_an_additional_thread_is_a_difference() -> None:
    one = nested(("main", 100))
    two = sorted([*one, *nested(("work", 30), tid=2, sp=0x6000_0000, start=5)])
    found = diff(one, two)
    assert (found.threads_a, found.threads_b) == ([], ["t2"])


def test_functions_left_out_of_one_trace_are_skipped_and_their_callees_compared() -> None:
    a = nested(("main", 10, ("tiny", 2, ("read", 5)), ("tiny", 2)))
    b = nested(("main", 10, ("read", 5)))
    tally = Tally(trace=TraceDescription(omitted=(Omitted("tiny", "prog", 0, 0),)))
    assert not diff(a, b).same
    never = Tally(trace=TraceDescription(unfollowed=(Unfollowed("tiny", "prog", "no-room"),)))
    for lacking in (tally, never):
        found = diff(a, b, lacking)
        assert found.same
        assert found.ignored == ["tiny"]
