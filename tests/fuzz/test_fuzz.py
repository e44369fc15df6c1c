# SPDX-License-Identifier: LGPL-2.1-or-later
"""Random commands: some rounds always, many under stress. GILK_FUZZ_ROUNDS is their number.

``python tests/guard.py -m tests.fuzz SEED 1`` repeats the round of a seed.
"""

from __future__ import annotations

import os
import random
import shlex

import pytest

from tests.fuzz.commands import Asked, asked
from tests.fuzz.rounds import one_round
from tests.fuzz.running import Ended, faults
from tests.fuzz.subjects import launched
from tests.seldom import seldom

ROUNDS = int(os.environ.get("GILK_FUZZ_ROUNDS", "1000"))
#: A program that is launched, and one whose counts are compared.
SOME = (3, 104)


def right(seed: int) -> None:
    told = one_round(seed)
    assert not told.wrong, "\n".join([*told.wrong, *map(shlex.join, told.commands), told.said])


@pytest.mark.parametrize("seed", SOME)
def test_some_rounds_of_random_commands_hold(seed: int) -> None:
    right(seed)


@pytest.mark.stress
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(4))
def test_many_rounds_of_random_commands_hold(part: int) -> None:
    first = 1_000_000 + part * ROUNDS
    for seed in range(first, first + ROUNDS // 4):
        right(seed)


@pytest.mark.parametrize("seed", seldom([1, 2], 1))
def test_a_seed_determines_the_commands(seed: int) -> None:
    chances = random.Random(seed), random.Random(seed)
    subjects = [launched(chance) for chance in chances]
    assert subjects[0] == subjects[1]
    assert asked(subjects[0], chances[0]) == asked(subjects[1], chances[1])


@pytest.mark.parametrize(
    ("ended", "wrong"),
    [
        (Ended(0, b"", "3 of 3 points instrumented\n"), 0),
        (Ended(2, b"", "gilk: there is no function f (no-such-function)\n"), 0),
        (Ended(4, b"", "gilk: the session has gone (keeper-gone)\n"), 1),
        (Ended(0, b"", "gilk: there is no function f (no-such-function)\n"), 1),
        (Ended(None, b"", ""), 1),
        (Ended(1, b"", "Traceback (most recent call last):\n"), 1),
    ],
)
def test_the_checks_detect_a_planted_fault(ended: Ended, wrong: int) -> None:
    assert len(faults(Asked("run", ("run",)), ended)) == wrong
