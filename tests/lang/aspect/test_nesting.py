# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice around calls, compared with Python's own functions: there aspects are decorators, and jumps are exceptions.

A program is a random tree of calls. The model gets the unaided program's actions as events; Python runs it decorated.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gilk.lang.aspect.automaton import Automaton
from gilk.lang.aspect.deeds import Did
from gilk.lang.aspect.events import AspectEvent, read_events
from gilk.lang.aspect.model import AspectModel
from tests.lang.aspect.automata import calling, element, sequence


@dataclass(frozen=True)
class Node:
    """A call of f or g with ``n``, which calls others and returns ``result``, or jumps out of ``jump`` calls."""

    function: str
    n: int
    result: int
    calls: tuple[Node, ...] = ()
    jump: int = 0


#: Advice in C, and the equivalent decorator, which gets a function to go on, a function to report, and n.
Going = Callable[[int], int]
PLACES: dict[str, tuple[str, Callable[[Going, Callable[[str], None], int], int]]] = {}


def in_place(text: str) -> Callable[[Callable[[Going, Callable[[str], None], int], int]], None]:
    def kept(function: Callable[[Going, Callable[[str], None], int], int]) -> None:
        PLACES[function.__name__] = text, function

    return kept


@in_place('{ report("in %d", n); long r = proceed(); report("out %ld", r); return r; }')
def _same(go: Going, report: Callable[[str], None], n: int) -> int:
    report(f"in {n}")
    r = go(-1)
    report(f"out {r}")
    return r


@in_place('{ long r = proceed(n + 10); report("got %ld", r); return r + 1; }')
def _other(go: Going, report: Callable[[str], None], n: int) -> int:
    r = go(n + 10)
    report(f"got {r}")
    return r + 1


@in_place('{ if (n % 2) { report("no"); deny(EPERM); } return proceed(); }')
def _denying(go: Going, report: Callable[[str], None], n: int) -> int:
    if n % 2:
        report("no")
        return -1
    return go(-1)


@in_place('{ long r = proceed(1); report("again"); r += proceed(2); return r; }')
def _twice(go: Going, report: Callable[[str], None], n: int) -> int:
    r = go(1)
    report("again")
    return r + go(2)


@dataclass(frozen=True)
class Woven:
    """An aspect on calls of ``function``: ``kind`` is before, after, or one of PLACES."""

    name: str
    function: str
    kind: str


def automaton(woven: Woven) -> Automaton:
    point = calling(woven.function, "long n")
    if woven.kind == "before":
        made = element(point, before='{ report("before %d", n); }')
    elif woven.kind == "after":
        made = element(point, "return long r", after='{ report("after %d: %d", n, r); }')
    else:
        made = element(point, inplace=PLACES[woven.kind][0])
    return sequence(made, name=woven.name)


def unaided(node: Node) -> list[AspectEvent]:
    """The events of the program without aspects; a call that is jumped out of has no return."""
    found: list[AspectEvent] = []

    def run(one: Node) -> None:
        found.append(_event(call=one.function, args=[one.n]))
        for each in one.calls:
            try:
                run(each)
            except Jump as jump:
                if jump.calls > 1:
                    raise Jump(jump.calls - 1) from jump
        if one.jump:
            found.append(_event(unwind=one.jump))
            raise Jump(one.jump)
        found.append(_event(**{"return": one.function}, value=one.result))

    with suppress(Jump):
        run(node)
    return found


def _event(**keys: object) -> AspectEvent:
    return read_events([json.dumps(keys)])[0]


class Unlike(Exception):
    """A call that jumps out does not take place; the events, of the program unaided, tell of a jump all the same."""


class Jump(Exception):
    """A jump out of that many calls."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.calls = calls


class Decorated:
    """The program as Python runs it; ``said`` are the reports, ``values`` the results of calls with advice in place."""

    def __init__(self, aspects: list[Woven]) -> None:
        self.aspects, self.said, self.abandoned = aspects, list[str](), 0

    def run(self, node: Node) -> int:
        own = [one for one in self.aspects if one.function == node.function]
        for one in own:
            if one.kind == "before":
                self.said.append(f"{one.name} before {node.n}")
        ran: list[int] = []
        function: Going = lambda n: self._original(node, n, own, ran)  # noqa: E731
        for one in reversed([one for one in own if one.kind in PLACES]):
            function = self._around(one, function, node.n)
        value = function(node.n)
        if not ran and _escapes(node, 0):
            raise Unlike
        return value

    def _around(self, woven: Woven, inner: Going, matched: int) -> Going:
        """The advice's ``n`` is that of the match; ``go`` without an argument passes on the original one."""

        def outer(n: int) -> int:
            def go(given: int) -> int:
                try:
                    return inner(n if given == -1 else given)
                except Jump:
                    self.abandoned += 1
                    raise

            return PLACES[woven.kind][1](go, lambda text: self.said.append(f"{woven.name} {text}"), matched)

        return outer

    def _original(self, node: Node, n: int, own: list[Woven], ran: list[int]) -> int:
        if not ran:
            ran.append(n)
            self._body(node)
        for one in reversed(own):
            if one.kind == "after":
                self.said.append(f"{one.name} after {n}: {node.result}")
        return node.result

    def _body(self, node: Node) -> None:
        for each in node.calls:
            try:
                self.run(each)
            except Jump as jump:
                if jump.calls > 1:
                    raise Jump(jump.calls - 1) from jump
        if node.jump:
            raise Jump(node.jump)


def _escapes(node: Node, depth: int) -> bool:
    return node.jump > depth or any(_escapes(one, depth + 1) for one in node.calls)


def within(node: Node, depth: int) -> Node:
    """The tree with jumps that go no further than there are calls."""
    calls = tuple(within(one, depth + 1) for one in node.calls)
    return replace(node, calls=calls, jump=min(node.jump, depth))


NODES = st.recursive(
    st.builds(Node, st.sampled_from("fg"), st.integers(0, 5), st.integers(0, 9), jump=st.sampled_from([0, 0, 0, 1, 2])),
    lambda inner: st.builds(
        Node, st.sampled_from("fg"), st.integers(0, 5), st.integers(0, 9), st.lists(inner, max_size=3).map(tuple),
        st.sampled_from([0, 0, 0, 1, 3]),
    ),
    max_leaves=8,
)  # fmt: skip
ASPECTS = st.lists(st.tuples(st.sampled_from("fg"), st.sampled_from(["before", "after", *PLACES])), max_size=5).map(
    lambda found: [Woven(f"a{number}", *one) for number, one in enumerate(found)]
)


@settings(max_examples=150, deadline=None)
@given(NODES, ASPECTS)
def test_advice_nests_as_decorators_do(node: Node, aspects: list[Woven]) -> None:
    node = within(node, 1)
    python = Decorated(aspects)
    try:
        python.run(node)
    except Jump:
        pass
    except Unlike:
        assume(False)
    model = AspectModel([automaton(one) for one in aspects])
    deeds = [deed for step in model.run(unaided(node)) for deed in step]
    assert [f"{deed.aspect} {deed.words}" for deed in deeds if deed.did is Did.REPORTS] == python.said
    assert sum(one.abandoned for one in model.counts().values()) == python.abandoned


def test_the_comparison_can_fail() -> None:
    """Decorators in the other order report something else."""
    node = Node("f", 0, 5)
    aspects = [Woven("a0", "f", "_same"), Woven("a1", "f", "_other")]
    said = []
    for order in (aspects, aspects[::-1]):
        python = Decorated(order)
        python.run(node)
        said.append(python.said)
    assert said[0] != said[1] and said[0] == ["a0 in 0", "a1 got 5", "a0 out 6"]
