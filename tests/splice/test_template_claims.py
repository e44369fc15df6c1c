# SPDX-License-Identifier: LGPL-2.1-or-later
"""Placed templates and plans beside them: neither touches a byte of the other."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gilk.splice.instrument import Count
from gilk.splice.plan import FunctionPlan, Want
from gilk.splice.planner import PatchContext, forget, plan
from gilk.splice.policy import PORTABLE, PROCESS
from gilk.splice.template import PlanTemplate, claim, conflicts
from gilk.splice.template_build import build_template, timings
from gilk.targets.templates import Shape, plans, reference_ground
from tests.programs.build import build
from tests.splice.holds import analysed

SHAPE = Shape(4096, ((1 << 20, 1 << 20),) * 4)
PATH = "/bin/bash"


@pytest.fixture(scope="module")
def template() -> PlanTemplate:
    return build_template(reference_ground(analysed(PATH), SHAPE), timings(analysed(PATH)))


def fresh() -> PatchContext:
    ground = reference_ground(analysed(PATH), SHAPE)
    ground.policy = PROCESS
    return ground


def marks(ground: PatchContext) -> list[bytes]:
    return [bytes(region.marks) + bytes(region.content) for region in ground.registry._regions]


def live(ground: PatchContext, some: list[int]) -> tuple[FunctionPlan, ...]:
    """Plans that count every block of some functions, where the policy permits it."""
    analysis, wanted = ground.analysis, []
    for number, at in enumerate(some):
        span = analysis.image.span_at(at)
        assert span is not None
        function = analysis.function(span)
        blocks = function.blocks
        wanted.append((function, [Want(b.start, False, Count(1), number << 20 | b.index) for b in blocks]))
    return plan(ground, wanted).functions


def written(plans: tuple[FunctionPlan, ...], bias: int) -> set[int]:
    return {s.address + i - bias for p in plans for s in p.sites for i in range(len(s.new))}


def pins(plans: tuple[FunctionPlan, ...], bias: int) -> set[int]:
    return {at - bias for p in plans for low, high in p.pinned for at in range(low, high)}


def sites(template: PlanTemplate, units: np.ndarray) -> dict[int, int]:
    """The unit of each byte, determined byte by byte."""
    found: dict[int, int] = {}
    for at, size, unit in zip(template.site_at, template.site_size, template.site_unit, strict=True):
        if units[unit]:
            found.update(dict.fromkeys(range(int(at), int(at) + int(size)), int(unit)))
    return found


def give_up(ground: PatchContext, template: PlanTemplate, units: np.ndarray) -> None:
    """Forget the plan of each unit, as a ledger does."""
    keys = {row: row for row in np.flatnonzero(units[template.row_unit]).tolist()}
    for made in plans(template, template.new, ground.bias, keys).values():
        forget(ground, made)


def test_plans_beside_a_placed_template_share_no_bytes_with_it(template: PlanTemplate) -> None:
    """Next to functions that are placed, and within those that are not; later those that were given up. What comes and
    goes at any time shares no bytes with what is planned then (PORTABLE)."""
    rng = random.Random(5)
    units = np.array([rng.random() < 0.5 for _ in template.unit_start])
    ground = fresh()
    before = marks(ground)
    claim(ground, template, template.new, units)
    ground.policy = PORTABLE
    others = rng.sample(np.flatnonzero(~units).tolist(), 150)
    plans = live(ground, template.unit_start[others].tolist())
    placed = sites(template, units)
    assert not (written(plans, ground.bias) | pins(plans, ground.bias)) & placed.keys()
    assert sum(len(p.tactics) for p in plans) > 1000

    given_up = np.zeros(len(units), np.bool_)
    given_up[rng.sample(np.flatnonzero(units).tolist(), 50)] = True
    give_up(ground, template, given_up)
    again = live(ground, template.unit_start[given_up].tolist())
    assert not (written(again, ground.bias) | pins(again, ground.bias)) & sites(template, units & ~given_up).keys()
    for each in (*plans, *again):
        forget(ground, each)
    give_up(ground, template, units & ~given_up)
    assert marks(ground) == before


def test_conflicts_of_a_template_with_earlier_plans_are_found(template: PlanTemplate) -> None:
    """The units that need a byte of a plan in force, by sets of single bytes."""
    ground = fresh()
    everything = np.ones(len(template.unit_start), np.bool_)
    assert not conflicts(ground, template).any()
    plans = live(ground, random.Random(7).sample(template.unit_start.tolist(), 60))
    taken = written(plans, ground.bias) | pins(plans, ground.bias)
    expected = {unit for at, unit in sites(template, everything).items() if at in taken}
    found = set(np.flatnonzero(conflicts(ground, template)).tolist())
    assert len(expected) >= 50 and expected <= found
    shared = found - expected  # a pun's own bytes are free, but what it shares with the code behind is not
    assert all((template.patch_unit[~template.patch_inside] == unit).any() for unit in shared)


def test_puns_of_a_template_pin_the_bytes_they_share() -> None:
    analysis = analysed(str(build("shortblocks")))
    ground = reference_ground(analysis, SHAPE)
    template = build_template(ground, timings(analysis))
    expected = [bytes(region.marks) for region in ground.registry._regions]
    other = reference_ground(analysis, SHAPE)
    claim(other, template, template.new, np.ones(len(template.unit_start), np.bool_))
    assert (~template.patch_inside).any(), "there is no pun"
    assert [bytes(region.marks) for region in other.registry._regions] == expected
