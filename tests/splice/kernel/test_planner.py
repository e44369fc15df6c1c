# SPDX-License-Identifier: LGPL-2.1-or-later
"""Kernel code under plans: it computes what it did, counts are exact, and the driver has nothing against the units."""

from __future__ import annotations

import random
from functools import cache

import pytest

from gilk.splice.points import Point
from tests.splice.kernel import corpus
from tests.splice.kernel.trial import Trial

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


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("assume_live", [0, 0x1FFFF], ids=["analysis", "all live"])
def test_functions_do_what_they_did(selection: str, assume_live: int) -> None:
    made = trial(selection, assume_live)
    told = 0
    for function in made.functions:
        for seed in range(6):
            wrong = made.wrong(function, seed)
            told += wrong is not None
            assert not wrong, (function.name, seed, wrong)
    assert told > 60


def test_everything_has_a_tactic_but_what_is_reserved() -> None:
    for selection in SELECTIONS:
        assert set(trial(selection).refusals.values()) <= {"faults", "bug", "exception"}


def test_every_tactic_is_in_use() -> None:
    used = {tactic for selection in SELECTIONS for tactic in trial(selection).tactics.values()}
    assert used == {"jump", "call", "bounce", "copy", "fentry", "trap"}
