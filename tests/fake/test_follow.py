# SPDX-License-Identifier: LGPL-2.1-or-later
"""All functions are made ready, and followed from a moment on, either by writing bytes or by exchanging code."""

from __future__ import annotations

import errno
import os
from collections import Counter

import pytest

from gilk.engines.follow.follower import Follower
from gilk.engines.follow.scope import TraceScope
from gilk.errors import TargetError
from gilk.session.request import Builtin
from gilk.targets import copies
from tests.fake.program import Program
from tests.fake.sessions import CLOCK, alone, code, data, ours, program, wanted
from tests.fake.target import FakeProcess


@pytest.fixture(params=["written", "exchanged"])
def exchanged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether copies of the code are made; the threshold is lowered, as this program is too small to be worth it."""
    if request.param == "exchanged":
        monkeypatch.setattr(copies, "_WORTH", 1)
    return bool(request.param == "exchanged")


def ready(process: FakeProcess) -> Follower:
    of = Follower(process, threads=8, ring=1 << 20, clock=CLOCK)
    _, trouble = of.prepare(process.loaded(), TraceScope.parse(["plain:"]))
    assert not trouble
    return of


def entries(of: Follower, one: Program) -> Counter[int]:
    """How often each function was entered, by its address."""
    rows = of.poll().select(["function", "kind"]).to_pylist()
    assert of.drain.drops() == 0
    return Counter(one.at(row["function"]) for row in rows if row["kind"] in ("time-entry", "time-head"))


def addresses(of: Follower, one: Program) -> list[int]:
    return [one.at(of.function(number).name) for number in range(of.functions)]


@pytest.mark.parametrize("expected", [False, True], ids=["at once", "expected"])
@pytest.mark.parametrize("moment", [0, 101, 307, 499])
def test_every_call_after_following_begins_is_recorded(moment: int, expected: bool, exchanged: bool) -> None:
    result, executed, variables = alone("pie")
    one = program("pie")
    before = code(one)
    process = FakeProcess(one)
    with ready(process) as of:
        assert (of.copy_code() > 0) == exchanged
        if expected:
            of.expect(range(of.functions))
        one.count()
        one.step(one.tasks[one.pid], moment)
        came = one.executed.copy()
        if expected:
            of.begin()
        else:
            of.follow(range(of.functions))
        if exchanged:
            assert {copy.in_force for copy in process.keeper.keeper.held.copies} == {True}
        assert code(one) != before
        assert one.finish() == result
        assert data(one) == variables
        found = entries(of, one)
        assert found == {at: executed[at] - came[at] for at in addresses(of, one) if executed[at] > came[at]}


def test_following_begins_and_ends_again_and_again(exchanged: bool) -> None:
    """The code is restored each time. Calls are recorded if and only if somebody follows."""
    result, executed, _ = alone()
    one = program()
    before, process = code(one), FakeProcess(one)
    with ready(process) as of:
        of.copy_code()
        while one.tasks:
            of.follow(range(of.functions))
            assert code(one) != before
            one.step(one.tasks[one.pid], 307)
            if one.tasks:
                try:
                    of.leave()
                except TargetError:
                    assert not one.tasks  # its last steps took it out of the patches, and to its end
                    break
                assert code(one) == before
                one.step(one.tasks[one.pid], 13)
        found = entries(of, one)
    assert one.ended[one.pid].result == result
    assert all(found[at] <= executed[at] for at in found)
    assert sum(found.values()) > 0.7 * sum(executed[at] for at in addresses(of, one))


def test_after_following_the_program_ends_as_undisturbed(exchanged: bool) -> None:
    one = program()
    before, process = code(one), FakeProcess(one)
    with ready(process) as of:
        of.copy_code()
        of.follow(range(of.functions))
        one.rounds(2)
    assert of.restored is True
    assert (code(one), ours(one)) == (before, [])
    assert one.finish() == alone()[0]


@pytest.mark.parametrize("executed_first", [False, True], ids=["copies wait", "copies are executed"])
def test_a_probe_counts_in_original_code_and_in_copies(executed_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe comes after code was copied, replaces what the copies have at its place, and goes while they are in
    use."""
    monkeypatch.setattr(copies, "_WORTH", 1)
    result, executed, variables = alone()
    one = program()
    before, process = code(one), FakeProcess(one)
    with ready(process) as of:
        assert of.copy_code()
        one.count()
        if executed_first:
            of.follow(range(of.functions))
        probes = of.insert_wanted(wanted(process, "leaf:entry", instrument=Builtin.STAMP))
        while one.tasks:
            of.follow(range(of.functions))
            one.step(one.tasks[one.pid], 307)
            if one.tasks:
                of.leave()
                one.step(one.tasks[one.pid], 211)
        kinds = of.poll()["kind"].to_pylist()
        assert kinds.count("stamp") == executed[one.at("leaf")] > 0
        assert probes[0].refusal is None and of.drain.drops() == 0
    assert (one.ended[one.pid].result, data(one)) == (result, variables)
    assert before


@pytest.mark.parametrize("followed", [False, True], ids=["left", "followed"])
def test_removing_a_probe_restores_original_code_and_copies(followed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_WORTH", 1)
    one = program()
    before, process = code(one), FakeProcess(one)
    with ready(process) as of:
        assert of.copy_code()
        if followed:
            of.follow(range(of.functions))
        of.remove(of.insert_wanted(wanted(process, "leaf:entry", "loop:entry", instrument=Builtin.STAMP)))
        for _ in range(2):
            of.follow(range(of.functions))
            one.step(one.tasks[one.pid], 101)
            of.leave()
    assert of.restored is True and code(one) == before
    assert one.finish() == alone()[0]


@pytest.mark.parametrize("number", range(6))
def test_code_is_written_when_the_kernel_refuses_to_exchange_it(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for each of the exchange's system calls."""
    monkeypatch.setattr(copies, "_WORTH", 1)
    one = program()
    before, process = code(one), FakeProcess(one)
    step = process.traced.step
    with ready(process) as of:
        assert of.copy_code()
        of.expect(range(of.functions))
        done = len(step.done)
        calls = [n for n, name in enumerate(probe_begin()[done:]) if name in ("mremap", "mmap")]
        step.fails = done + calls[number % len(calls)], OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        of.begin()
        assert len(step.done) > step.fails[0], "it was not met"
        assert one.finish() == alone()[0]
        assert entries(of, one)
    assert before
    assert of.restored is True


def probe_begin() -> list[str]:
    """The steps of a session up to the moment at which it follows by an exchange of code."""
    process = FakeProcess(program())
    with ready(process) as of:
        assert of.copy_code()
        of.expect(range(of.functions))
        of.begin()
        return list(process.traced.step.done)
