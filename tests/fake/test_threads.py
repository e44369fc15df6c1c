# SPDX-License-Identifier: LGPL-2.1-or-later
"""Several threads that take turns: threads that end, that stand still, and that a fork has made."""

from __future__ import annotations

import pytest

from gilk.errors import TargetError
from gilk.session.request import Builtin
from tests.fake.program import Program
from tests.fake.sessions import code, counts, ours, program, session, wanted
from tests.fake.target import FakeProcess

_THREADS, _ROUNDS = 3, 4
POINTS = ("*:entry", "*:blocks")


def crowd() -> Program:
    one = program()
    for _ in range(_THREADS):
        one.spawn("worker", _ROUNDS)
    return one


def test_calls_of_every_thread_are_counted() -> None:
    alone = crowd()
    alone.count()
    alone.finish()
    one = crowd()
    process = FakeProcess(one)
    with session(process) as of:
        asked = wanted(process, *POINTS)
        probes = of.insert_wanted(asked)
        one.finish()
        assert len(of.drain.identities()) == _THREADS + 1
    found = counts(of, asked, probes)
    assert found == {address: alone.executed[address] for address in found}


@pytest.mark.parametrize("turn", [1, 2, 5, 13, 89])
def test_threads_go_on_correctly_after_changes_between_their_turns(turn: int) -> None:
    """Each thread stands at another place when code changes."""
    alone = crowd()
    alone.count()
    alone.finish()
    one = crowd()
    before = code(one)
    process = FakeProcess(one)
    for task in list(one.tasks.values()):
        one.step(task, 61 * turn % 400)
    with session(process) as of:
        one.turn(turn)
        first = of.insert_wanted(wanted(process, "*:entry"))
        one.turn(turn)
        of.insert_wanted(wanted(process, "*:blocks"))
        one.turn(turn)
        of.remove(first)
        one.turn(turn)
    assert of.restored is True
    assert code(one) == before
    assert {task.registers.gs_base for task in one.tasks.values()} == {0}
    one.finish()
    assert len(one.ended) == _THREADS + 1


def test_records_of_an_ended_thread_are_kept() -> None:
    one = crowd()
    process = FakeProcess(one)
    arguments = one.watch("leaf", "rdi")
    with session(process) as of:
        of.insert_wanted(wanted(process, "leaf:entry", instrument=Builtin.ARGS))
        one.finish()
        table = of.poll()
        assert of.drain.drops() == 0
    assert len(set(table["tid"].to_pylist())) == _THREADS + 1
    assert sorted(table["arg0"].to_pylist()) == sorted(arguments)


def inside(process: FakeProcess) -> int:
    """Let the first thread go on until it is in the runtime, and stall it there. Returns its number."""
    first, keeper = process.program.tasks[process.pid], process.keeper.keeper
    while not keeper.held.in_arena(at := first.registers.rip) or keeper._batches.everywhere().in_patch(at):
        process.program.step(first)
    process.program.stalled.add(first.tid)
    return first.tid


def test_a_thread_that_stays_in_an_instrument_makes_removal_fail_as_busy() -> None:
    """The error lasts as long as the thread gets no processor; the active probes stay active."""
    one = crowd()
    process = FakeProcess(one)
    with session(process) as of:
        asked = wanted(process, "*:blocks", instrument=Builtin.REGS)
        of.insert_wanted(asked)
        tid = inside(process)
        patched = code(one)
        with pytest.raises(TargetError) as caught:
            of.insert_wanted(wanted(process, "*:entry"))
        assert caught.value.slug == "busy"
        assert code(one) == patched
        one.stalled.remove(tid)
        of.insert_wanted(wanted(process, "*:entry"))
    assert of.restored is True
    one.finish()


def test_code_that_a_thread_is_inside_of_stays_until_it_leaves() -> None:
    """All probes are removed, and the thread still finds the code that it needs to come back."""
    one = crowd()
    before = code(one)
    process = FakeProcess(one)
    with session(process) as of:
        of.insert_wanted(wanted(process, "*:blocks", instrument=Builtin.REGS))
        tid = inside(process)
    assert of.restored is True
    assert code(one) == before
    assert ours(one)
    assert [note for note in of.notes if "stays mapped" in note]
    one.stalled.remove(tid)
    one.finish()


def test_a_forked_child_is_restored_and_computes_the_same() -> None:
    """The child has its parent's probes when it begins, and its hits are counted too."""
    results = []
    for probed in (False, True):
        one = program()
        before = code(one)
        one.spawn("parent", _ROUNDS)
        one.stalled.add(one.pid)  # the other threads see what the stalled one computes
        process = FakeProcess(one)
        with session(process) as of:
            asked = wanted(process, "worker:entry", "work:entry") if probed else []
            probes = of.insert_wanted(asked)
            while not one.children:
                one.turn()
            (child,) = one.children
            child.rounds(2)
            assert (code(child) != before) == probed
            one.stalled.clear()
            one.finish()
            found = counts(of, asked, probes)
        assert not probed or found[one.at("worker")] == 2
        assert of.restored is True
        assert code(child) == before
        assert not ours(child)
        results.append(child.finish())
    assert results[0] == results[1]
