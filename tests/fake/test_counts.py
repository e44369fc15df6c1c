# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counts equal how often the code is executed: in a whole run, and in the rest of one, wherever a thread stands.

The right counts are those that the emulator has of the program's own code in an undisturbed run.
"""

from __future__ import annotations

import contextlib

import pytest

from gilk.errors import TargetError
from gilk.session.request import Builtin
from tests.fake.programs import VARIANTS
from tests.fake.sessions import alone, code, counts, data, ours, program, session, wanted
from tests.fake.target import FakeProcess

EVERYTHING = ("*:entry", "*:return", "*:blocks")
_STEP = 41  # instructions; prime, so that every part of a loop is met
#: Instructions from one moment to the next; under `make stress`, every instruction is a moment.
DISTANCES = [pytest.param(307, id="some"), pytest.param(1, id="all", marks=pytest.mark.stress)]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("points", [("*:entry",), ("*:return",), ("*:blocks",), EVERYTHING], ids="+".join)
def test_counts_of_a_whole_run_are_those_of_the_emulator(variant: str, points: tuple[str, ...]) -> None:
    one, (result, executed, variables) = program(variant), alone(variant)
    process = FakeProcess(one)
    with session(process) as of:
        asked = wanted(process, *points)
        found = counts(of, asked, of.insert_wanted(asked))
        assert len(found) > 0.7 * len({each.point.address for each in asked}), of.refusals()
        assert one.finish() == result
        found = counts(of, asked, of.probes)
    assert found == {address: executed[address] for address in found}
    assert any(found.values())
    assert data(one) == variables


@pytest.mark.parametrize("instrument", ["count", "stamp", "args", "regs", "time"])
def test_the_code_is_restored_after_a_session(instrument: str) -> None:
    one = program()
    before, result = code(one), alone()[0]
    process = FakeProcess(one)
    with session(process) as of:
        of.insert_wanted(wanted(process, "*:entry", instrument=Builtin(instrument)))
        one.rounds(3)
        assert code(one) != before
        assert ours(one)
    assert of.restored is True
    assert code(one) == before
    assert not ours(one)
    assert {task.registers.gs_base for task in one.tasks.values()} == {0}
    assert one.finish() == result


@pytest.mark.parametrize("distance", DISTANCES)
def test_probes_inserted_at_any_moment_count_every_later_hit(distance: int) -> None:
    """The thread may stand in displaced bytes: then it goes on in the patch, and is counted or not as it should be."""
    result, executed, variables = alone()
    total = sum(executed.values())
    for moment in range(0, total, distance):
        one = program()
        one.count()
        one.step(one.tasks[one.pid], moment)
        before = one.executed.copy()
        process = FakeProcess(one)
        with session(process) as of:
            asked = wanted(process, *EVERYTHING)
            probes = of.insert_wanted(asked)
            assert one.finish() == result, moment
            found = counts(of, asked, probes)
        assert found == {address: executed[address] - before[address] for address in found}, moment
        assert data(one) == variables


@pytest.mark.parametrize("distance", DISTANCES)
def test_probes_removed_at_any_moment_have_counted_every_earlier_hit(distance: int) -> None:
    """The thread may stand anywhere in a patch or in the runtime: it goes on at the corresponding place in the
    program."""
    result, executed, variables = alone()
    moment = 0
    while True:
        one = program()
        process = FakeProcess(one)
        with session(process) as of:
            asked = wanted(process, *EVERYTHING)
            probes = of.insert_wanted(asked)
            one.step(one.tasks[one.pid], moment)
        assert of.restored is True
        if not one.tasks:
            return  # the program has ended by then, or when its thread was moved out of a patch
        stands = one.tasks[one.pid].registers.rip
        found = counts(of, asked, probes)
        one.count()
        assert one.finish() == result, moment
        both = {at: n + one.executed[at] for at, n in found.items()}
        if both.get(stands, 0) == executed[stands] + 1:
            both[stands] -= 1  # counted already, and not yet executed
        assert both == {at: executed[at] for at in found}, moment
        assert data(one) == variables
        moment += distance


def test_a_probe_counts_every_hit_while_others_come_and_go() -> None:
    """A function is planned anew whenever one of its probes comes or goes; a thread in the old patch goes on in the
    new one, at a place where as many of its instruments have run."""
    result, executed, _ = alone()
    one = program()
    process = FakeProcess(one)
    with session(process) as of:
        asked = wanted(process, "*:entry")
        probes = of.insert_wanted(asked)
        others = ["*:return", "*:blocks"]
        with contextlib.suppress(TargetError):  # the program may end while a thread is moved out of a patch
            while one.tasks:
                one.step(one.tasks[one.pid], _STEP)
                come = of.insert_wanted(wanted(process, others[0]))
                one.turn()
                of.remove(come)
                others.reverse()
        found = counts(of, asked, probes)
    assert one.ended[one.pid].result == result
    assert found == {address: executed[address] for address in found}
