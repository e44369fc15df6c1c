# SPDX-License-Identifier: LGPL-2.1-or-later
"""The cost of each construct of the language, as bench/aspect.py measures it: in instructions that single steps of
the processor count, not in time."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable

import pytest

from bench.aspect import CONSTRUCTS, Rounds

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs a C compiler")

#: The most instructions that a construct may add to a round: those counted once, and a fifth more for other compilers.
MOST = {
    "call before, a condition that is false": 115,
    "call before": 110,
    "call in place, without the call": 110,
    "call in place, a condition that is false": 115,
    "call in place, one proceed()": 280,
    "call after, an argument kept": 280,
    "sequence of two, perthread": 710,
    "sequence of three, perthread": 1085,
    "sequence of six, perthread": 2210,
    "sequence of three, keyed": 1490,
    "the same, 100 others open": 1045,
    "the same, 4000 others open": 1045,
    "the same, 4000 others open, one key the same": 1245,
    "a call that moves one instance": 360,
    "a call that moves 10 instances": 1250,
    "a call that moves 100 instances": 9190,
    "control flow of two, inside": 450,
    "control flow of two, not inside": 120,
    "control flow of two, not strict, inside": 430,
    "control flow of two, on the stack": 145,
    "control flow of two, not on the stack": 145,
    "call before, verified": 250,
    "global read, a condition that is false": 185,
    "global read, in place": 200,
    "global read, in place, proceed()": 235,
    "global write, old and value, before": 200,
    "global write, in place": 290,
    "read by address, of other memory": 40,
    "read by address, of a watched block": 555,
    "write by address, of other memory": 30,
    "write by address, of a watched block": 555,
}


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    return Rounds(tmp_path_factory.mktemp("rounds"))


@pytest.fixture(scope="module")
def more(rounds: Rounds) -> Callable[[str], int]:
    """A function that returns the instructions that a construct adds. Each construct is counted once."""
    return functools.cache(rounds.more)


def test_the_cost_of_a_nop_is_one_instruction(rounds: Rounds) -> None:
    """The paper checks its figures in the same way: a nop is one instruction."""
    assert rounds.nops() == 100


#: Each does a little more, or less, than one that is counted in every run.
ALIKE = {
    "call in place, a condition that is false", "call in place, without the call", "call after, an argument kept",
    "the same, 4000 others open, one key the same", "control flow of two, not inside",
    "control flow of two, not strict, inside", "global read, a condition that is false", "global write, in place",
    "write by address, of other memory", "read by address, of a watched block", "read by address, of other memory",
    "call before, a condition that is false", "control flow of two, not on the stack", "global read, in place, proceed()",
    "global write, old and value, before",
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.stress) if n in ALIKE else n for n in CONSTRUCTS])
def test_no_construct_takes_more_instructions_than_its_recorded_bound(more: Callable[[str], int], name: str) -> None:
    assert 0 < more(name) <= MOST[name]


def test_a_construct_takes_the_same_instructions_in_another_process(rounds: Rounds, more: Callable[[str], int]) -> None:
    for name in ("call before", "sequence of three, keyed", "global read, in place"):
        assert rounds.more(name) == more(name)


def test_cost_grows_linearly_with_elements(more: Callable[[str], int]) -> None:
    """The paper's figure shows this; here it holds within a twentieth."""
    two, three, six = (more(f"sequence of {n}, perthread") for n in ("two", "three", "six"))
    assert six - three == pytest.approx(3 * (three - two), rel=0.05)


def test_cost_grows_linearly_with_instances_that_match(more: Callable[[str], int]) -> None:
    """The cost does not grow faster: what each of a hundred adds is within a quarter of what each of ten adds."""
    one, ten, hundred = (more(f"a call that moves {n}") for n in ("one instance", "10 instances", "100 instances"))
    assert (hundred - ten) / 90 == pytest.approx((ten - one) / 9, rel=0.25)


def test_instances_that_do_not_match_cost_nothing(more: Callable[[str], int]) -> None:
    assert more("the same, 4000 others open") == more("the same, 100 others open")
