# SPDX-License-Identifier: LGPL-2.1-or-later
"""Kernel code under plans: it computes the same, counts are exact, and the driver accepts the units."""

from __future__ import annotations

import random
from functools import cache

import pytest

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import Function
from gilk.splice.instrument import Instrument
from gilk.splice.kernel.host import RingPlaces
from gilk.splice.kernel.instrument import KernelCallWithRegisters, KernelCount, KernelStamp
from gilk.splice.kernel.planner import plan
from gilk.splice.kernel.units import units
from gilk.splice.plan import FunctionPlan, Want
from gilk.splice.points import Point
from tests.seldom import seldom
from tests.splice.kernel import corpus
from tests.splice.kernel.corpus import ARENA
from tests.splice.kernel.driver import written
from tests.splice.kernel.machine import GS_BASE, machine
from tests.splice.kernel.trial import COUNTERS, DATA, Trial, start

SELECTIONS = ["all", "pre", "post", "entry", "calls", "few", *(f"some {n}" for n in range(12))]


@cache
def trial(selection: str, assume_live: int = 0) -> Trial:
    rng = random.Random(selection)
    share = 0.01 if selection == "few" else rng.choice((0.05, 0.2, 0.6))

    def chosen(point: Point) -> bool:
        if selection == "entry":
            return point.where == "@0:pre"
        if selection in ("pre", "post"):
            return point.where.endswith(selection)
        if selection == "calls":
            return point.where.startswith("+") and corpus.disassembly()[point.address][1].startswith("call")
        if selection == "all":
            return point.where.startswith("@")
        return rng.random() < share

    return Trial(chosen, assume_live)


@pytest.mark.parametrize("selection", SELECTIONS)
def test_the_driver_takes_every_unit(selection: str) -> None:
    assert trial(selection).units
    assert not trial(selection).refused()


@pytest.mark.parametrize("selection", seldom(SELECTIONS, 10))
@pytest.mark.parametrize("assume_live", [0, 0x1FFFF], ids=["analysis", "all live"])
def test_functions_compute_the_same_under_plans(selection: str, assume_live: int) -> None:
    made = trial(selection, assume_live)
    told = 0
    for function in made.functions:
        for seed in range(6):
            wrong = made.wrong(function, seed)
            told += wrong is not None
            assert not wrong, (function.name, seed, wrong)
    assert told > 60


def test_every_point_has_a_tactic_except_reserved_ones() -> None:
    for selection in SELECTIONS:
        assert set(trial(selection).refusals.values()) <= {"faults", "bug", "exception"}


def test_every_tactic_is_in_use() -> None:
    used = {tactic for selection in SELECTIONS for tactic in trial(selection).tactics.values()}
    assert used == {"jump", "call", "bounce", "copy", "fentry", "trap"}


# What a hit costs, the jumps to the patch and back included.

RINGS = RingPlaces((0x100, 0x108, 0x110, 0x118), 0x1000, 0, ARENA, 0x180, 0x4D8, 0x188, 0x4DC)


LEAF = next(span.start for span in corpus.image().spans if span.name == "leaf")
ARGUMENTS = {
    "leaf": (1, 2), "branches": (7, 2, 3), "sum": (DATA, 5), "indirect": (LEAF, 3, 4), "everything": (DATA, 0, 9, 7),
}  # fmt: skip


def test_liveness_is_not_computed_for_what_saves_all_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the patches are the same with it: `fires` is what D programs put at every function of the kernel."""
    fires = KernelCallWithRegisters(ARENA + 0x1000, 7, ARENA + 0x2000)
    with monkeypatch.context() as patch:
        patch.setattr(Analysis, "liveness", lambda *_: pytest.fail("liveness was computed"))
        made = everywhere(fires)
    assert any(one.patches for one in made)
    monkeypatch.setattr("gilk.splice.planner.heeds_live", lambda wants: True)
    assert [one.patches for one in made] == [one.patches for one in everywhere(fires)]


def everywhere(instrument: Instrument) -> tuple[FunctionPlan, ...]:
    """Plans with the instrument at all blocks of all functions."""
    found = []
    for function in corpus.analysis().functions():
        wants = [Want(block.start, False, instrument, key) for key, block in enumerate(function.blocks)]
        found.append((function, wants))
    return plan(corpus.ground(), found).functions


@pytest.mark.parametrize(
    ("instrument", "most"), [(KernelCount(COUNTERS), 3), (KernelStamp(1, RINGS), 35)], ids=["count", "stamp"]
)
@pytest.mark.parametrize("name", list(ARGUMENTS))
def test_an_entry_takes_no_more_instructions_than_its_bound(instrument: Instrument, most: int, name: str) -> None:
    made, function = one(name, instrument)
    registers, memory = dict(zip(("rdi", "rsi", "rdx", "rcx"), ARGUMENTS[name], strict=False)), start(1)[1]
    plain = machine().run(function.start, registers, 0x202, corpus.code() | memory, {})
    assert plain.end == "returned"
    sites, traps = written(units(made, corpus.read))
    patches = {patch.address: patch.data for patch in made.patches}
    ring, task = ((DATA + n).to_bytes(8, "little") for n in (0x100010, 0x200000))
    host = {GS_BASE + RINGS.wpos[0]: ring, GS_BASE + RINGS.current: task, GS_BASE + RINGS.filter: bytes(8)}
    around = corpus.code() | memory | patches | sites | host
    after = machine().run(function.start, registers, 0x202, around, traps)
    calls = sum(plain.visits[address] for address in entries(name))
    assert after.end == plain.end
    assert 0 < after.steps - plain.steps <= most * calls


def one(name: str, instrument: Instrument) -> tuple[FunctionPlan, Function]:
    function = next(f for f in corpus.analysis().functions() if f.name == name)
    (made,) = plan(corpus.ground(), [(function, [Want(function.start, False, instrument, 1)])]).functions
    return made, function


def entries(name: str) -> list[int]:
    return [span.start for span in corpus.image().spans if span.name == name]
