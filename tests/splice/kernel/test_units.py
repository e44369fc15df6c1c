# SPDX-License-Identifier: LGPL-2.1-or-later
"""Units: each kind is as in the driver's manual, and the stand-in for the driver refuses wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gilk.splice.kernel.units import Unit, UnitKind, fills
from gilk.splice.plan import FunctionPlan, Patch
from tests.splice.kernel import corpus
from tests.splice.kernel.driver import refused
from tests.splice.kernel.test_planner import SELECTIONS, trial

Change = Callable[[Unit], Unit]


def first(kind: UnitKind) -> tuple[Unit, ...]:
    """The units of a function that has one of the kind, that one first, with all it depends on before it."""
    for selection in SELECTIONS:
        for made in trial(selection).made:
            found = trial(selection).units_of(made.name)
            if any(unit.kind is kind for unit in found):
                return found
    raise AssertionError(kind)


def complaints(found: tuple[Unit, ...]) -> list[str]:
    arena = [Patch(corpus.ARENA, bytes(corpus.ARENA_SIZE))]
    return list(refused(found, arena, corpus.disassembly(), corpus.read))


def test_each_kind_of_unit_is_made_correctly() -> None:
    for kind in UnitKind:
        assert not complaints(first(kind))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (UnitKind.SINGLE, lambda unit: replace(unit, old=bytes(len(unit.old)))),
        (UnitKind.MULTI, lambda unit: replace(unit, kind=UnitKind.SINGLE)),
        (UnitKind.MULTI, lambda unit: replace(unit, old=unit.old[:-1], new=unit.new[:-1])),
        (UnitKind.MULTI, lambda unit: replace(unit, copy=0)),
        (UnitKind.MULTI, lambda unit: replace(unit, patch=unit.patch + 1)),
        (UnitKind.SHORT, lambda unit: replace(unit, several=not unit.several)),
        (UnitKind.SHORT, lambda unit: replace(unit, pad=unit.pad + 1)),
        (UnitKind.TRAP, lambda unit: replace(unit, new=unit.old)),
        (UnitKind.TRAP, lambda unit: replace(unit, old=unit.old + b"\x90", new=unit.new + b"\x90")),
        (UnitKind.PAD, lambda unit: replace(unit, old=b"\x55" * len(unit.old))),
        (UnitKind.FENTRY, lambda unit: replace(unit, patch=0)),
    ],
)
def test_the_stand_in_for_the_driver_detects_wrong_units(kind: UnitKind, change: Change) -> None:
    good = first(kind)
    assert complaints(tuple(change(unit) if unit.kind is kind else unit for unit in good))


def test_a_pad_comes_after_its_host_and_before_its_user() -> None:
    for selection in SELECTIONS:
        for made in trial(selection).made:
            seen: dict[int, Unit] = {}
            for unit in trial(selection).units_of(made.name):
                if unit.kind is UnitKind.SHORT:
                    assert seen[unit.pad].kind is UnitKind.PAD
                seen[unit.address] = unit


def test_windows_of_several_instructions_end_in_traps() -> None:
    """What is left of the last instruction would otherwise be decoded as another."""
    several = [unit for s in SELECTIONS for unit in trial(s).units if unit.kind is UnitKind.MULTI and len(unit.new) > 5]
    assert several
    for unit in several:
        assert unit.new[5:].strip(b"\xcc") == b""


def test_fills_join_only_neighbouring_patches() -> None:
    near, far = Patch(0x1000, b"\x90" * 10), Patch(0x3000, b"\xc3")
    plans = [FunctionPlan("a", (), (far, near)), FunctionPlan("b", (), (Patch(0x1010, b"\x90"),))]
    assert fills(plans) == [Patch(0x1000, b"\x90" * 10 + b"\xcc" * 6 + b"\x90"), far]
