# SPDX-License-Identifier: LGPL-2.1-or-later
"""The model: the meaning of each construct in turn, and the examples of the paper."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gilk.errors import UsageError
from gilk.lang.aspect.automaton import (
    AliasAccess,
    Alternative,
    BoundName,
    Calling,
    ControlFlow,
    GlobalAccess,
    Sharing,
    Word,
)
from gilk.lang.aspect.deeds import AspectTally
from tests.lang.aspect.automata import calling, element, name, qualifier, ran, sequence

ABC = (element(calling("a", "k")), element(calling("b", "k")), element(calling("c", "k")))


def call(function: str, *args: Any, **others: Any) -> str:
    """The line of a call, as JSON."""
    return json.dumps({"call": function, "args": args, **others})


def calls(*texts: str, **others: Any) -> str:
    """Lines of calls from short texts: ``a1`` is a call of a with 1."""
    return "\n".join(call(text[0], *(int(one) for one in (text[1:],) if one), **others) for text in texts)


def tally(model: Any) -> AspectTally:
    found: AspectTally = model.counts()["it"]
    return found


# Sequences.


def test_each_match_makes_the_next_element_active_instead() -> None:
    model, deeds = ran(sequence(*ABC), calls("b1", "a1", "c1", "b1", "b1", "c1", "c1"))
    assert deeds == ["it 1.0 began", "it 1.1 moved", "it 1.2 moved", "it 1 ended"]
    assert tally(model).matches == (1, 1, 1)


def test_every_match_of_the_first_begins_an_instance_of_its_own() -> None:
    model, deeds = ran(sequence(*ABC), calls("a1", "a2", "b2", "c2", "c1"))
    assert deeds == ["it 1.0 began", "it 2.0 began", "it 2.1 moved", "it 2.2 moved", "it 2 ended"]
    assert [one.number for one in model.open("it")] == [1]


def test_equal_instances_move_together() -> None:
    _, deeds = ran(sequence(*ABC), calls("a1", "a1", "b1"))
    assert deeds[2:] == ["it 1.1 moved", "it 2.1 moved"]


def test_an_instance_moves_once_at_an_event() -> None:
    _, deeds = ran(sequence(element(calling("a")), element(calling("a")), element(calling("a"))), calls("a1", "a1"))
    assert deeds == ["it 1.0 began", "it 1.1 moved", "it 2.0 began"]


def test_a_repeated_element_is_active_until_the_next_element_matches() -> None:
    repeated = sequence(element(calling("a")), element(calling("b"), star=True), element(calling("c")))
    model, deeds = ran(repeated, calls("a", "b", "b", "c", "b"))
    assert deeds == ["it 1.0 began", "it 1.1 moved", "it 1.1 moved", "it 1.2 moved", "it 1 ended"]
    model, deeds = ran(repeated, calls("a", "c"))
    assert tally(model).matches == (1, 0, 1)


def test_the_next_element_is_preferred_to_a_repeated_one() -> None:
    both = sequence(element(calling("a")), element(calling("b"), star=True), element(calling("b", "n"), "n == 3"))
    _, deeds = ran(both, calls("a", "b1", "b3", "b1"))
    assert deeds == ["it 1.0 began", "it 1.1 moved", "it 1.2 moved", "it 1 ended"]


def test_names_bound_by_a_repeated_element_do_not_restrict_its_next_match() -> None:
    sizes = sequence(element(calling("a")), element(calling("b", "n"), before='report("%d", n)', star=True), ABC[2])
    _, deeds = ran(sizes, calls("a", "b1", "b2"))
    assert [one for one in deeds if "reports" in one] == ["it 1.1 reports 1", "it 1.1 reports 2"]


def test_repeated_elements_may_match_no_event() -> None:
    stars = sequence(
        element(calling("a")), element(calling("b"), star=True), element(calling("c"), star=True), element(calling("d"))
    )
    assert tally(ran(stars, calls("a", "c", "b", "d"))[0]).matches == (1, 0, 1, 1)
    assert tally(ran(stars, calls("a", "b", "d"))[0]).matches == (1, 1, 0, 1)


def test_until_ends_an_instance_unless_an_active_element_matches() -> None:
    ended = sequence(*ABC, until=(element(calling("u", "k")), element(calling("b", "k"))))
    model, deeds = ran(ended, calls("a1", "a2", "b1", "u2", "b1"))
    assert deeds[2:] == ["it 1.1 moved", "it 2 until", "it 1 until"]
    assert tally(model) == AspectTally((2, 1, 0), begun=2, until=2)


def test_within_ends_instances_that_are_older() -> None:
    timed = sequence(*ABC, within=10)
    text = "\n".join((call("a", 1, at=0), call("b", 1, at=10), call("a", 2, at=10), call("c", 1, at=11)))
    model, deeds = ran(timed, text)
    assert deeds == ["it 1.0 began", "it 1.1 moved", "it 2.0 began", "it 1 late"]
    assert tally(model) == AspectTally((2, 1, 0), begun=2, open=1, late=1)


def test_with_unique_a_new_instance_replaces_an_equal_one() -> None:
    model, deeds = ran(sequence(*ABC, unique=("k",)), calls("a1", "b1", "a2", "a1", "c1"))
    assert deeds[2:] == ["it 2.0 began", "it 1 replaced", "it 3.0 began"]
    assert tally(model) == AspectTally((3, 1, 0), begun=3, open=2, replaced=1)


def test_instances_without_room_are_lost_and_counted() -> None:
    model, deeds = ran(sequence(*ABC, instances=2), calls("a1", "a2", "a3", "b3", "b1", "c1", "a4"))
    assert "it .0 lost" in deeds and tally(model) == AspectTally((3, 1, 1), begun=3, open=2, ended=1, lost=1)


def test_a_replacing_instance_needs_no_room() -> None:
    assert tally(ran(sequence(*ABC, instances=1, unique=("k",)), calls("a1", "a1"))[0]).lost == 0


@pytest.mark.parametrize(("sharing", "moved"), [(Sharing.ANY, 3), (Sharing.PROCESS, 2), (Sharing.THREAD, 1)])
def test_sharing_decides_which_threads_continue_an_instance(sharing: Sharing, moved: int) -> None:
    shared = sequence(element(calling("a")), element(calling("b"), star=True), element(calling("c")), sharing=sharing)
    text = "\n".join((call("a", pid=5), call("b", pid=5), call("b", pid=5, tid=6), call("b", pid=7)))
    assert tally(ran(shared, text)[0]).matches == (1, moved, 0)


def test_instances_that_no_thread_can_continue_are_removed() -> None:
    text = (
        call("a", 1, pid=5, tid=6) + '\n{"exit": "thread", "pid": 5, "tid": 7}\n{"exit": "thread", "pid": 5, "tid": 6}'
    )
    assert tally(ran(sequence(*ABC, sharing=Sharing.THREAD), text)[0]).gone == 1
    assert tally(ran(sequence(*ABC, sharing=Sharing.PROCESS), text)[0]).gone == 0
    assert tally(ran(sequence(*ABC), text + '\n{"exit": "process", "pid": 5}')[0]).open == 1


# Bindings.


def test_texts_are_compared_up_to_their_nul_and_cut_to_the_array() -> None:
    paths = sequence(
        element(calling("a", "char *p"), "char q[4] = p"), element(calling("b", "char *r"), "char q[4] = r")
    )
    assert tally(ran(paths, call("a", "abcd") + "\n" + call("b", "abcdef"))[0]).ended == 1
    assert tally(ran(paths, call("a", "a\0x") + "\n" + call("b", "a"))[0]).ended == 1
    assert tally(ran(paths, call("a", "abc") + "\n" + call("b", "abd"))[0]).ended == 0


def test_comparisons_use_the_type_of_the_first_binding() -> None:
    narrow = sequence(element(calling("a", "int k")), element(calling("b", "k")))
    assert tally(ran(narrow, calls("a4294967297", "b1"))[0]).ended == 1


def test_conditions_see_bound_names_and_all_must_hold() -> None:
    later = sequence(element(calling("a", "k")), element(calling("b", "n"), "n > k", "n < 2 * k"))
    assert tally(ran(later, calls("a5", "b4", "b11", "b7"))[0]).ended == 1
    assert tally(ran(later, calls("a5", "b4", "b11"))[0]).ended == 0


def test_the_first_alternative_that_matches_binds() -> None:
    two = (Alternative(calling("a", "k"), (qualifier("k > 5"),)), Alternative(Calling("[ab]*", (name("n"), name("k")))))
    begins = element(calling("x"))
    either = sequence(type(begins)(two), element(calling("z", "k")))
    assert tally(ran(either, calls("a7", "z7"))[0]).ended == 1
    assert tally(ran(either, call("b", 1, 9) + "\n" + calls("z9"))[0]).ended == 1


def test_an_event_that_lacks_a_needed_value_is_an_error() -> None:
    with pytest.raises(UsageError) as caught:
        ran(sequence(element(calling("a", "p"), "p->next != 0")), calls("a1"))
    assert (caught.value.slug, "p->next" in caught.value.message) == ("event-lacks-value", True)
    told = call("a", 1, values={" p -> next ": 5})
    assert tally(ran(sequence(element(calling("a", "p"), "p->next != 0")), told)[0]).ended == 1


# Control flow.


def flow(strict: bool, *functions: str) -> Any:
    *outer, last = map(calling, functions)
    return sequence(element(ControlFlow(strict, tuple(outer), last)))


@pytest.mark.parametrize(
    ("stack", "strict", "matches"),
    [
        ("zfb", True, 1),
        ("zfb", False, 1),
        ("zhfb", True, 0),
        ("zhfb", False, 1),
        ("zfhb", False, 1),
        ("mzfb", True, 1),
        ("fzb", False, 0),
        ("zzffb", True, 0),
        ("zzffb", False, 1),
        ("zfzb", False, 1),
        ("fb", False, 0),
    ],
)
def test_control_flow_matches_strict_and_loose_stacks(stack: str, strict: bool, matches: int) -> None:
    assert tally(ran(flow(strict, "z", "f", "b"), calls(*stack))[0]).matches == (matches,)


def test_a_function_left_by_return_or_jump_is_not_on_the_stack() -> None:
    for left in ('{"return": "f"}', '{"unwind": 1}'):
        text = f"{calls('z', 'f')}\n{left}\n{calls('b')}"
        assert tally(ran(flow(False, "z", "f", "b"), text)[0]).matches == (0,)
    longjmp = f'{calls("z", "f", "g", "h")}\n{{"unwind": 2}}\n{calls("b")}'
    assert tally(ran(flow(True, "z", "f", "b"), longjmp)[0]).matches == (1,)


def test_a_return_removes_inner_calls_from_the_stack() -> None:
    text = f'{calls("z", "f", "g")}\n{{"return": "f"}}\n{calls("b")}'
    assert tally(ran(flow(True, "z", "b"), text)[0]).matches == (1,)


def test_control_flow_binds_the_innermost_matching_call() -> None:
    point = ControlFlow(False, (calling("f", "n"),), GlobalAccess(True, "x"))
    outer = sequence(element(point, "value v", before='report("%d %d", n, v)'))
    _, deeds = ran(outer, calls("f1", "f2", "g") + '\n{"write": "x", "value": 9}')
    assert deeds[-1] == "it 1.0 reports 2 9"


def test_threads_have_stacks_of_their_own() -> None:
    text = "\n".join((call("z", tid=2), call("f", tid=3), call("b", tid=3), call("f", tid=2), call("b", tid=2)))
    assert tally(ran(flow(True, "z", "f", "b"), text)[0]).matches == (1,)


# Accesses.


def test_a_write_has_the_old_value_and_the_new_one() -> None:
    point = GlobalAccess(True, "status")
    written = sequence(element(point, "value v", "old o", "v && !o", after='report("%d %d", o, v)'))
    text = '{"write": "status", "value": 3, "old": 0}\n{"write": "status", "value": 4, "old": 3}\n{"read": "status"}'
    _, deeds = ran(written, text)
    assert [one for one in deeds if "reports" in one] == ["it 1.0 reports 0 3"]


def test_members_and_wholes_overlap() -> None:
    point = GlobalAccess(False, "x.a")
    for variable, matches in (("x.a", 1), ("x.a.b", 1), ("x", 1), ("x.b", 0), ("xx.a", 0), ("x.aa", 0)):
        assert tally(ran(sequence(element(point)), f'{{"read": "{variable}"}}')[0]).matches == (matches,), variable


def test_a_read_in_place_yields_the_value_that_advice_returns() -> None:
    replaced = sequence(element(GlobalAccess(False, "x"), inplace="{ return proceed() + 1; }"))
    assert ran(replaced, '{"read": "x", "value": 4}')[1][-2:] == ["it 1.0 proceeds 4", "returns 5"]


def test_a_write_in_place_takes_place_only_if_advice_proceeds() -> None:
    kept = sequence(element(GlobalAccess(True, "x"), "value v", inplace="{ if (v < 9) proceed(v + 1); }"))
    behind = sequence(element(GlobalAccess(True, "x"), "value w", after='report("%d", w)'), name="behind")
    _, deeds = ran((kept, behind), '{"write": "x", "value": 4}')
    assert "behind 1.0 reports 5" in deeds and "skipped x" not in deeds
    _, deeds = ran((kept, behind), '{"write": "x", "value": 9}')
    assert "skipped x" in deeds and not any("reports" in one for one in deeds)


# Advice.


def around(text: str, **others: Any) -> Any:
    return sequence(element(calling("f", "int n"), inplace=text), **others)


def test_advice_in_place_nests_with_the_first_woven_outermost() -> None:
    one = around('{ report("1 in"); long r = proceed(n + 1); report("1 out %ld", r); return r * 2; }', name="one")
    two = around('{ report("2 in %d", n); long r = proceed(); report("2 out %ld", r); return r + 1; }', name="two")
    _, deeds = ran((one, two), calls("f1") + '\n{"return": "f", "value": 10}')
    said = [each.partition("reports ")[2] for each in deeds if "reports" in each]
    assert said == ["1 in", "2 in 1", "2 out 10", "1 out 11"] and deeds[-1] == "returns 22"
    assert "two 1.0 proceeds 2" in deeds


def test_a_call_does_not_happen_if_advice_does_not_proceed() -> None:
    within = sequence(element(calling("g")), name="within")
    behind = sequence(element(calling("f"), "return r"), name="behind")
    text = calls("f1", "g") + '\n{"return": "g"}\n{"return": "f", "value": 3}\n' + calls("g")
    model, deeds = ran((around("{ return 7; }"), within, behind), text)
    assert (
        "returns 7" in deeds and model.counts()["within"].matches == (1,) and model.counts()["behind"].matches == (0,)
    )
    assert deeds.count("skipped g") == 2


def test_a_second_proceed_is_a_second_return() -> None:
    behind = sequence(element(calling("f", "int n"), "return r", after='report("%d", n)'), name="behind")
    _, deeds = ran(
        (around("{ proceed(1); return proceed(2); }"), behind), calls("f9") + '\n{"return": "f", "value": 3}'
    )
    assert [one for one in deeds if "reports" in one] == ["behind 1.0 reports 1", "behind 2.0 reports 2"]
    assert deeds[-1] == "returns 3"


def test_advice_before_runs_before_advice_in_place_and_advice_after_in_reverse_order() -> None:
    early = sequence(element(calling("f"), before='report("early")'), name="early")
    late = [sequence(element(calling("f"), after=f'report("{one}")'), name=one) for one in ("first", "second")]
    place = around('{ report("place"); return proceed(); }', name="place")
    _, deeds = ran((place, *late, early), calls("f1") + '\n{"return": "f"}')
    said = [each.partition("reports ")[2] for each in deeds if "reports" in each]
    assert said == ["early", "place", "second", "first"]


def test_longjmp_abandons_suspended_advice() -> None:
    model, deeds = ran(around("{ return proceed(); }"), calls("f1", "g") + '\n{"unwind": 2}\n{"return": "f"}')
    assert tally(model).abandoned == 1 and not any("returns" in one for one in deeds)


def test_calls_made_by_advice_do_not_match_aspects_of_its_file() -> None:
    own = sequence(element(calling("f")), name="own", file="a.aspect")
    other = sequence(element(calling("f")), name="other", file="b.aspect")
    model, _ = ran((own, other), call("f", inside="a.aspect") + "\n" + call("g", inside="a.aspect"))
    assert (model.counts()["own"].inside, model.counts()["own"].matches) == (1, (0,))
    assert (model.counts()["other"].inside, model.counts()["other"].matches) == (0, (1,))
    assert ran((own, other), call("f", inside=True))[0].counts()["other"].inside == 1


def test_only_an_instances_advice_writes_its_words() -> None:
    words = (Word(BoundName("by", "int"), "40 + 1"),)
    noting = sequence(
        element(calling("a", "k")),
        element(calling("b", "k"), before="{ by = k; by++; }", star=True),
        element(calling("c", "k"), before='report("%d: %d", k, by)'),
        words=words,
    )
    _, deeds = ran(noting, calls("a1", "a2", "b1", "c1", "c2"))
    assert [one for one in deeds if "reports" in one] == ["it 1.2 reports 1: 2", "it 2.2 reports 2: 41"]
    assert "it 1.1 sets by = 2" in deeds


def test_deny_makes_the_call_fail() -> None:
    _, deeds = ran(around("{ if (n) { deny(EACCES); } return proceed(); }"), calls("f1"))
    assert deeds[-2:] == ["it 1.0 denies EACCES", "returns -1"]


def test_tables_are_summed_by_key() -> None:
    model, _ = ran(sequence(element(calling("f", "k", "n"), before="add(bytes, k, n)")), "\n".join((
        call("f", 1, 10), call("f", 2, 1), call("f", 1, 5),
    )))  # fmt: skip
    assert model.sums == {("bytes", "1"): 15, ("bytes", "2"): 1}


# Groups.


def test_elements_match_only_in_the_groups_they_are_placed_in() -> None:
    placed = sequence(element(calling("a"), places=("A",)), element(calling("b"), places=("K",)), element(calling("c")))
    text = '{"groups": {"A": [5]}}\n' + "\n".join((
        call("a", pid=6), call("a", pid=5, kernel=True), call("a", pid=5), call("b", pid=5),
        call("b", pid=9, kernel=True), call("c", pid=5, kernel=True), call("c", pid=9),
    ))  # fmt: skip
    assert tally(ran(placed, text)[0]).matches == (1, 1, 1)


def test_advice_adds_to_groups_and_switches_aspects() -> None:
    admits = sequence(element(calling("a", "int n"), before='{ join(A, n); aspect_on("b"); }'), name="a")
    member = sequence(element(calling("b"), places=("A",)), name="b")
    text = "\n".join(('{"groups": {"A": []}}', '{"off": "b"}', call("b", pid=7), call("a", 7), call("b", pid=7)))
    assert ran((admits, member), text)[0].counts()["b"].matches == (1,)
    assert ran((admits, member), text + '\n{"leave": "A", "pid": 7}\n' + call("b", pid=7))[0].counts()["b"].begun == 1


def test_children_inherit_membership_and_stack() -> None:
    member = sequence(element(ControlFlow(True, (calling("a"),), calling("b")), places=("A",)))
    text = '{"groups": {"A": [5]}}\n' + call("a", pid=5) + '\n{"fork": 8, "pid": 5}\n' + call("b", pid=8)
    assert tally(ran(member, text)[0]).matches == (1,)


def test_calls_entered_before_joining_or_while_off_finish_unadvised() -> None:
    behind = sequence(element(calling("f"), "return r"))
    returns = '{"return": "f", "value": 1}'
    assert tally(ran(behind, returns)[0]).matches == (0,)
    assert tally(ran(behind, '{"off": "it"}\n' + calls("f") + '\n{"on": "it"}\n' + returns)[0]).matches == (0,)
    assert tally(ran(behind, calls("f") + "\n" + returns)[0]).matches == (1,)


def test_accesses_through_an_alias_match_the_bound_memory() -> None:
    store = AliasAccess(True, "b", "n + 64")
    overflow = sequence(
        element(calling("malloc", "size_t n"), "return void *b", "b && n >= 64"),
        element(store, "size w", "offset o", "o + w > n", inplace='report("%ld at %ld of %ld", w, o, n)', star=True),
        element(calling("free", "void *b")),
    )
    text = (
        call("malloc", 100)
        + '\n{"return": "malloc", "value": 1000}\n'
        + "\n".join(f'{{"write": {address}, "size": 8}}' for address in (1000, 1092, 1096, 1170, 990, 993))
        + "\n"
        + call("free", 1000)
    )
    model, deeds = ran(overflow, text)
    said = [one.partition("reports ")[2] for one in deeds if "reports" in one]
    assert said == ["8 at 96 of 100"]
    assert tally(model).ended == 1
