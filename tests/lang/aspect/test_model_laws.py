# SPDX-License-Identifier: LGPL-2.1-or-later
"""Laws that hold of every automaton and every list of events; the naive implementation agrees on short ones.

The negative control breaks the model in one place at a time, and the same comparison has to notice.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gilk.lang.aspect import instances
from gilk.lang.aspect.automaton import AdviceCode, Advising, Automaton, Element, Sharing
from gilk.lang.aspect.deeds import ENDS, Deed, Did
from gilk.lang.aspect.events import AspectEvent, EventKind
from gilk.lang.aspect.model import AspectModel
from tests.lang.aspect import naive
from tests.lang.aspect.automata import calling, element, sequence
from tests.lang.aspect.naive import Happened, Part, Whole
from tests.seldom import seldom

_SHARING = {"any": Sharing.ANY, "process": Sharing.PROCESS, "thread": Sharing.THREAD}


def made(numbered: tuple[int, Part]) -> Element:
    """The element for a part. A value that is not bound as k gets a name of its own."""
    n, part = numbered
    name = "k" if part.binds else f"n{n}"
    return element(calling(part.function, name), f"{name} >= {part.least}", star=part.star)


def automaton(whole: Whole) -> Automaton:
    return sequence(
        *map(made, enumerate(whole.parts)),
        until=tuple(map(made, enumerate(whole.until, 10))),
        within=whole.within,
        unique=("k",) if whole.unique else None,
        sharing=_SHARING[whole.sharing],
        instances=whole.instances,
    )


def event(one: Happened) -> AspectEvent:
    return AspectEvent(EventKind.CALL, one.function, (one.k,), pid=one.pid, tid=one.tid, at=one.at)


def logged(steps: tuple[tuple[Deed, ...], ...]) -> tuple[list[naive.Run], int]:
    """The result of naive.runs(), from the deeds of the model."""
    logs: dict[int, list[tuple[int, int]]] = {}
    ends: dict[int, tuple[str, int]] = {}
    lost = 0
    for when, deeds in enumerate(steps):
        for deed in deeds:
            if deed.did in (Did.BEGAN, Did.MOVED):
                logs.setdefault(number(deed.instance), []).append((when, number(deed.element)))
            elif deed.did in ENDS:
                assert number(deed.instance) not in ends, "an instance ends once"
                ends[number(deed.instance)] = deed.did.value, when
            elif deed.did is Did.LOST:
                lost += 1
    return [naive.Run(tuple(log), *ends.get(each, (None, None))) for each, log in sorted(logs.items())], lost


def number(found: int | None) -> int:
    assert found is not None
    return found


def model_runs(whole: Whole, events: list[Happened]) -> tuple[list[naive.Run], int]:
    return logged(AspectModel((automaton(whole),)).run(map(event, events)))


PARTS = st.builds(Part, st.sampled_from("abc"), st.booleans(), st.integers(0, 2))


@st.composite
def wholes(draw: st.DrawFn) -> Whole:
    first, *others = draw(st.lists(PARTS, min_size=1, max_size=4))
    middle = [replace(each, star=draw(st.booleans())) for each in others[:-1]]
    return Whole(
        (first, *middle, *others[-1:]),
        tuple(draw(st.lists(PARTS, max_size=2))),
        draw(st.none() | st.integers(0, 4)),
        first.binds and draw(st.booleans()),
        draw(st.sampled_from(sorted(_SHARING))),
        draw(st.sampled_from([1, 2, 1000])),
    )


@st.composite
def happenings(draw: st.DrawFn, most: int) -> list[Happened]:
    threads = st.sampled_from([(1, 1), (1, 2), (2, 3)])
    found = draw(
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2), threads, st.integers(0, 2)), max_size=most)
    )
    at = 0
    events = []
    for function, k, (pid, tid), later in found:
        at += later
        events.append(Happened(function, k, pid, tid, at))
    return events


@settings(max_examples=100, deadline=None)
@given(wholes(), happenings(6))
def test_the_naive_implementation_agrees(whole: Whole, events: list[Happened]) -> None:
    assert model_runs(whole, events) == naive.runs(whole, events)


@settings(max_examples=100, deadline=None)
@given(wholes(), happenings(40))
def test_every_instance_log_is_a_path_and_counts_add_up(whole: Whole, events: list[Happened]) -> None:
    model = AspectModel((automaton(whole),))
    found: list[tuple[Deed, ...]] = []
    firsts = 0
    for each in events:
        found.append(model.step(event(each)))
        counts = model.counts()["it"]
        ended = counts.ended + counts.until + counts.late + counts.replaced + counts.gone
        assert counts.begun == counts.open + ended and counts.open == len(model.open("it")) <= whole.instances
        firsts += naive._fits(whole.parts[0], each, None)
        assert firsts == counts.begun + counts.lost and counts.matches[0] == counts.begun
    runs, _ = logged(tuple(found))
    for run in runs:
        pattern = naive.paths(whole) if run.how == "ended" else naive.prefixes(whole)
        assert pattern.fullmatch(naive.letters(run.log)), run
        assert [when for when, _ in run.log] == sorted({when for when, _ in run.log}), "an event moves it once"
    assert sum(len(run.log) for run in runs) == sum(model.counts()["it"].matches)


@settings(max_examples=60, deadline=None)
@given(wholes(), happenings(30))
def test_instances_of_different_keys_are_independent(whole: Whole, events: list[Happened]) -> None:
    """All elements bind k: one key fares as if there were no other."""
    keyed = replace(
        whole,
        parts=tuple(replace(part, binds=True) for part in whole.parts),
        until=tuple(replace(part, binds=True) for part in whole.until),
        instances=1000,
    )
    together = Counter(_named(each, events) for each in model_runs(keyed, events)[0])
    apart: Counter[object] = Counter()
    for k in {one.k for one in events}:
        own = [one if one.k == k else replace(one, function="x") for one in events]
        apart.update(_named(each, own) for each in model_runs(keyed, own)[0])
    assert together == apart


def _named(run: naive.Run, events: list[Happened]) -> object:
    return events[run.log[0][0]].k, run


@settings(max_examples=50, deadline=None)
@given(wholes(), wholes(), happenings(25))
def test_aspects_are_independent(one: Whole, other: Whole, events: list[Happened]) -> None:
    both = (automaton(one), replace(automaton(other), name="other"))
    steps = AspectModel(both).run(map(event, events))
    mine = tuple(tuple(deed for deed in deeds if deed.aspect == "it") for deeds in steps)
    assert logged(mine) == model_runs(one, events)


@settings(max_examples=50, deadline=None)
@given(wholes(), happenings(25))
def test_advice_runs_once_for_each_match_with_room(whole: Whole, events: list[Happened]) -> None:
    plain = automaton(whole)
    advised = replace(
        plain, elements=tuple(replace(one, advice=AdviceCode(Advising.BEFORE, 'report("x")')) for one in plain.elements)
    )
    model = AspectModel((advised,))
    deeds = [deed for step in model.run(map(event, events)) for deed in step]
    ran = Counter(deed.element for deed in deeds if deed.did is Did.REPORTS)
    assert tuple(ran[each] for each in range(len(plain.elements))) == model.counts()["it"].matches


# What would be found.


def cases(count: int) -> Iterator[tuple[Whole, list[Happened]]]:
    """The same cases each time, short and crowded."""
    chance = random.Random(15)
    for _ in range(count):
        parts = [
            Part(chance.choice("ab"), chance.random() < 0.7, chance.randrange(2)) for _ in range(chance.randint(2, 4))
        ]
        middle = [replace(part, star=chance.random() < 0.6) for part in parts[1:-1]]
        until = tuple(Part(chance.choice("ab"), chance.random() < 0.5) for _ in range(chance.randrange(2)))
        within = chance.choice([None, None, 1, 2])
        unique = parts[0].binds and chance.random() < 0.3
        sharing = chance.choice(["any", "any", "process", "thread"])
        whole = Whole((parts[0], *middle, parts[-1]), until, within, unique, sharing, chance.choice([1, 2, 1000]))
        times = sorted(chance.randrange(4) for _ in range(5))
        places = [chance.choice([(1, 1), (1, 1), (1, 2), (2, 3)]) for _ in times]
        yield (
            whole,
            [
                Happened(chance.choice("ab"), chance.randrange(2), *place, at)
                for place, at in zip(places, times, strict=True)
            ],
        )


@functools.cache
def expected() -> list[tuple[Whole, list[Happened], object]]:
    return [(*case, naive.runs(*case)) for case in cases(400)]


def disagreements() -> int:
    return sum(model_runs(whole, events) != runs for whole, events, runs in expected())


def test_the_cases_of_the_negative_control_agree() -> None:
    assert disagreements() == 0


_ACTIVE, _CONTINUED, _BEGUN = Automaton.active, instances.AspectInstances._continued, instances.AspectInstances._begun
_MOVE = instances.AspectInstances._move


def _begins_first(self: Any, hit: Any, ready: frozenset[int]) -> Iterator[Any]:
    self._ready = ready
    yield from _BEGUN(self, hit)
    for instance in tuple(self.open):
        if self._may_continue(instance, hit.event):
            yield from _CONTINUED(self, instance, hit)


def _moves_twice(self: Any, instance: Any, hit: Any) -> Iterator[Any]:
    yield from _CONTINUED(self, instance, hit)
    if instance in self.open:
        yield from _CONTINUED(self, instance, hit)


def _until_first(self: Any, instance: Any, hit: Any) -> Iterator[Any]:
    for each in range(len(self.automaton.until)):
        if self._match(len(self.automaton.elements) + each, hit, instance) is not None:
            self._end(instance, Did.UNTIL)
            return
    yield from _CONTINUED(self, instance, hit)


def _keeps_what_a_repeated_one_binds(self: Any, instance: Any, number: int, found: Any) -> None:
    instance.bound = found
    _MOVE(self, instance, number, found)


def _expires_early(self: Any, now: int) -> None:
    if self.automaton.within is not None:
        self._end_all(Did.LATE, lambda one: now - one.since >= self.automaton.within)


MUTANTS: dict[str, tuple[type, str, Callable[..., Any]]] = {
    "the first active element is tried first": (
        Automaton,
        "active",
        lambda self, at: tuple(reversed(_ACTIVE(self, at))),
    ),
    "a repeated element is left at once": (
        Automaton,
        "after",
        lambda self, n: n + 1 if n + 1 < len(self.elements) else None,
    ),
    "a new instance begins first": (instances.AspectInstances, "transitions", _begins_first),
    "an event moves an instance twice": (instances.AspectInstances, "_continued", _moves_twice),
    "until comes before active elements": (instances.AspectInstances, "_continued", _until_first),
    "a repeated element's names are kept": (instances.AspectInstances, "_move", _keeps_what_a_repeated_one_binds),
    "one just as old as the limit ends": (instances.AspectInstances, "expire", _expires_early),
    "nothing expires": (instances.AspectInstances, "expire", lambda self, now: None),
    "nothing is replaced": (instances.AspectInstances, "_replace", lambda self, new: None),
    "everything is replaced": (instances.AspectInstances, "_shares", lambda self, one, other: True),
    "every thread continues": (instances.AspectInstances, "_may_continue", lambda self, one, event: True),
}


@pytest.mark.parametrize("what", seldom(MUTANTS, 5))
def test_a_broken_model_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[what])
    assert disagreements() > 0, what


def test_the_naive_implementation_can_refuse() -> None:
    """Its regular expressions distinguish paths from other logs."""
    whole = Whole((Part("a"), Part("b", star=True), Part("c"), Part("a")))
    assert [bool(naive.paths(whole).fullmatch(each)) for each in ("ACD", "ABBCD", "ABD", "ACBD", "AB")] == [
        True,
        True,
        *[False] * 3,
    ]
    assert [bool(naive.prefixes(whole).fullmatch(each)) for each in ("A", "ABB", "AC", "AD", "B", "ACB")] == [
        True
    ] * 3 + [False] * 3
