# SPDX-License-Identifier: LGPL-2.1-or-later
"""Plans for real functions: whatever is requested, the properties of plans hold."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from gilk.analysis.model import Function
from gilk.arch.decode import decode
from gilk.splice.instrument import Count, Instrument, Stamp, StampWithArguments
from gilk.splice.plan import FunctionPlan, Want
from gilk.splice.planner import PatchContext, forget, plan
from gilk.targets.image import pretend_loaded
from tests.seldom import seldom
from tests.splice.holds import analysed, violations

LIBC = "/lib/x86_64-linux-gnu/libc.so.6"
BASH = "/bin/bash"
PROGRAMS = [BASH, LIBC]

Made = dict[int, tuple[list[Want], FunctionPlan]]


class Asking:
    """Makes wants with fresh keys, in random number and kind."""

    def __init__(self, path: str, seed: int) -> None:
        self.analysis = analysed(path)
        self.rng = random.Random(seed)
        self.next = 0

    def want(self, address: int, after: bool = False) -> Want:
        self.next += 1
        kinds: list[Instrument] = [Count(self.next)] * 6 + [Stamp(self.next), StampWithArguments(self.next)]
        return Want(address, after, self.rng.choice(kinds), self.next)

    def wants(self, function: Function, share: float) -> list[Want]:
        """Before blocks, before their ends, and now and then anywhere."""
        found = []
        for block in function.blocks:
            if self.rng.random() < share:
                found.append(self.want(block.start))
            if self.rng.random() < share:
                found += self._inside(function, block.index)
        return found

    def _inside(self, function: Function, index: int) -> list[Want]:
        block = function.blocks[index]
        steps = self.analysis.steps(function, block)
        addresses = [step.instruction.ip for step in steps]
        if self.rng.random() < 0.7:
            return [self.want(addresses[-1], after=block.terminator == block.end)]
        return [self.want(self.rng.choice(addresses), after=self.rng.random() < 0.3) for _ in range(2)]

    def functions(self, count: int) -> list[Function]:
        spans = self.analysis.image.spans
        first = self.rng.randrange(len(spans))
        near = [spans[(first + i) % len(spans)] for i in range(count // 2)]
        chosen = {span.start: span for span in [*near, *self.rng.sample(spans, count - len(near))]}
        return [function for span in chosen.values() if (function := self.analysis.function(span)).blocks]


def plan_all(ground: PatchContext, asked: list[tuple[Function, list[Want]]]) -> Made:
    """Plan everything. Returns the plans by function, with wants found by key, since a plan's functions have an
    order of their own."""
    order = sorted(asked, key=lambda item: -item[0].start)
    made = plan(ground, order)
    return {f.start: (wants, p) for (f, wants), p in zip(order, made.functions, strict=True)}


def check(path: str, seed: int, count: int) -> None:
    asking = Asking(path, seed)
    ground = pretend_loaded(asking.analysis)
    share = asking.rng.choice((0.1, 0.5, 1.0, 1.0))
    functions = asking.functions(count)
    made = plan_all(ground, [(f, asking.wants(f, share)) for f in functions])
    assert violations(path, ground, list(made.values())) == []


@pytest.mark.parametrize("path", seldom(PROGRAMS, 1))
@pytest.mark.parametrize("seed", seldom(range(2), 1))
def test_properties_of_plans_hold_for_random_requests(path: str, seed: int) -> None:
    check(path, seed, 60)


@pytest.mark.parametrize("path", seldom(PROGRAMS, 1))
def test_descriptions_of_splices_agree_with_their_bytes(path: str) -> None:
    """By iced they lead from window to bounce, trampoline and patch; hosts displace what they lend."""
    asking = Asking(path, 5)
    ground = pretend_loaded(asking.analysis)
    made = plan(ground, [(f, asking.wants(f, 0.8)) for f in asking.functions(400)]).functions
    seen: Counter[str] = Counter()
    for function in made:
        memory = {patch.address: patch.data for patch in function.patches}
        windows = {splice.window.address: splice for splice in function.splices}
        for splice in function.splices:
            seen[splice.tactic] += 1
            assert splice.patch in memory and splice.displaced[0] == splice.window.address
            if splice.tactic == "copy":
                assert not splice.sites
                continue
            last = splice.bounce or splice.window
            if splice.bounce:
                assert led(splice.window.new, splice.window.address) == splice.bounce.address
            behind = b""
            if splice.shared:
                assert splice.shared[0] == last.end
                behind = ground.registry.read(last.end - ground.bias, splice.shared[1] - last.end)
            target = led(last.new + behind, last.address)
            if splice.shared:
                assert target in splice.trampolines
                target = led(memory[target], target)
            assert target == splice.patch
            if splice.host:
                assert splice.bounce and windows[splice.host].window.end <= splice.bounce.address
                assert splice.bounce.end <= windows[splice.host].displaced[-1]
    assert all(seen[tactic] for tactic in ("jump", "call", "bounce", "pun"))


def led(code: bytes, address: int) -> int:
    """The target of the jump or call that the code is."""
    return int(next(iter(decode(code, address))).near_branch_target)


@pytest.mark.parametrize("path", PROGRAMS)
def test_functions_are_planned_one_by_one_and_again(path: str) -> None:
    """As in a session, more and more functions are planned, some are forgotten, and some get other wants."""
    asking = Asking(path, 7)
    ground = pretend_loaded(asking.analysis)
    functions = asking.functions(80)
    in_force: Made = {}
    for _ in range(8):
        for function in asking.rng.sample(functions, 12):
            change(ground, in_force, function, asking.wants(function, asking.rng.choice((0, 0.3, 1))))
        assert violations(path, ground, list(in_force.values())) == []
    for function in functions:
        change(ground, in_force, function, [])
    assert not in_force


def change(ground: PatchContext, in_force: Made, function: Function, wants: list[Want]) -> None:
    """Give a function other wants; functions whose puns share bytes with it are planned again too."""
    asked = {function.start: (function, wants)}
    todo = [function.start]
    while todo:
        start = todo.pop()
        if start in in_force:
            old = in_force.pop(start)[1]
            forget(ground, old)
            for other in sharing(in_force, old):
                other_function = ground.analysis.function(ground.analysis.image.span_at(other))
                asked[other] = (other_function, in_force[other][0])
                todo.append(other)
    in_force.update(plan_all(ground, [item for item in asked.values() if item[1]]))


def sharing(in_force: Made, old: FunctionPlan) -> list[int]:
    touched = {site.address + i for site in old.sites for i in range(len(site.new))}
    return [
        start
        for start, (_, other) in in_force.items()
        if any(a in touched for low, high in other.pinned for a in range(low, high))
    ]


def test_a_forgotten_plan_can_be_made_again_with_the_same_bytes() -> None:
    """The same wants get the same bytes again, at other addresses of the arena."""
    asking = Asking(BASH, 3)
    ground = pretend_loaded(asking.analysis)
    asked = [(f, asking.wants(f, 1.0)) for f in asking.functions(40)]
    first = plan_all(ground, asked)
    for _, old in first.values():
        forget(ground, old)
    second = plan_all(ground, asked)
    assert violations(BASH, ground, list(second.values())) == []
    for start, (_, old) in first.items():
        again = second[start][1]
        assert [(s.address, len(s.new)) for s in old.sites] == [(s.address, len(s.new)) for s in again.sites]
        assert (old.tactics, old.refusals) == (again.tactics, again.refusals)


@pytest.mark.stress
@pytest.mark.parametrize("path", [*PROGRAMS, "/usr/bin/openssl", "/usr/bin/python3"])
@pytest.mark.parametrize("seed", range(1000, 1010))
def test_properties_of_plans_hold_for_many_random_requests(path: str, seed: int) -> None:
    check(path, seed, 1000)
