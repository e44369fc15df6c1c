# SPDX-License-Identifier: LGPL-2.1-or-later
"""Properties and actions of a program that lead to refusals, or to a new plan."""

from __future__ import annotations

import pytest

from gilk.errors import GilkError, MemoryTaken, TargetError, UsageError
from gilk.splice.allocator import Occupied
from gilk.targets.maps import find_room
from gilk.targets.workspace import ARENA_SIZE
from tests.fake.program import Program
from tests.fake.sessions import alone, code, counts, ours, program, session, wanted
from tests.fake.space import PAGE, Backing, Region
from tests.fake.target import FakeProcess

_GIB = 1 << 30


def take(one: Program, start: int, size: int = PAGE) -> None:
    """Have the program map memory at ``start``."""
    one.space.add(Region(start, start + size, "---p", Backing.anonymous(PAGE)))


class Late(FakeProcess):
    """A process that maps memory just where an arena would go, ``times`` times, after it was asked for free places."""

    def __init__(self, one: Program, times: int) -> None:
        super().__init__(one)
        self._times = times

    def occupied(self) -> Occupied:
        found = super().occupied()
        if self._times:
            self._times -= 1
            (main,) = self.loaded()
            start = find_room(found, main.start, main.end, ARENA_SIZE + (64 << 10) + PAGE)
            assert start is not None
            take(self.program, start + ARENA_SIZE // 2)
        return found


def test_points_are_planned_again_when_memory_was_taken() -> None:
    one = program("pie")
    process = Late(one, 3)
    with session(process) as of:
        asked = wanted(process, "*:entry")
        probes = of.insert_wanted(asked)
        one.finish()
        executed = alone("pie")[1]
        found = counts(of, asked, probes)
    assert found == {address: executed[address] for address in found}
    assert not process._times


def test_memory_that_is_taken_every_time_is_refused() -> None:
    one = program("pie")
    before = code(one)
    process = Late(one, 1 << 20)
    with session(process) as of, pytest.raises(MemoryTaken):
        of.insert_wanted(wanted(process, "*:entry"))
    assert code(one) == before
    assert not ours(one)


def test_no_free_memory_within_reach_is_refused() -> None:
    one = program("pie")
    before, process = code(one), FakeProcess(one)
    (main,) = process.loaded()
    take(one, main.start - 3 * _GIB, 3 * _GIB - PAGE)
    take(one, main.end + PAGE & -PAGE, 3 * _GIB)
    with session(process) as of, pytest.raises(TargetError) as caught:
        of.insert_wanted(wanted(process, "*:entry"))
    assert caught.value.slug == "no-room"
    assert (code(one), ours(one)) == (before, [])


def test_a_program_that_uses_its_gs_base_is_refused() -> None:
    one = program()
    task = one.spawn("worker", 1)
    task.registers.gs_base = task.registers.fs_base
    with pytest.raises(TargetError) as caught:
        session(FakeProcess(one))
    assert caught.value.slug == "gs-in-use"
    assert ours(one) == []


def test_a_second_session_is_refused() -> None:
    """The second session is refused, and the first goes on."""
    one = program()
    process = FakeProcess(one)
    with session(process) as of:
        asked = wanted(process, "leaf:entry")
        probes = of.insert_wanted(asked)
        with pytest.raises(TargetError) as caught:
            session(FakeProcess(one))
        assert caught.value.slug == "gs-in-use"
        one.finish()
        assert counts(of, asked, probes) == {one.at("leaf"): alone()[1][one.at("leaf")]}


@pytest.mark.parametrize("name", ["leaf", "loop", "work"])
def test_code_that_another_tool_has_changed_is_refused(name: str) -> None:
    """The displaced bytes have a breakpoint of somebody else, for example: nothing is changed, there or elsewhere."""
    one = program()
    one.space.write(one.at(name), b"\xcc")
    before, process = code(one), FakeProcess(one)
    with session(process) as of:
        with pytest.raises(TargetError) as caught:
            of.insert_wanted(wanted(process, "*:entry"))
        assert caught.value.slug == "code-changed"
        assert code(one) == before
        others = [each for each in ("leaf", "loop", "work") if each != name]
        of.insert_wanted(wanted(process, *(f"{each}:entry" for each in others)))
    assert of.restored is True
    assert code(one) == before


@pytest.mark.parametrize("point", ["no_such:entry", "libz*:deflate:entry", "leaf:+1"])
def test_an_unknown_point_is_refused(point: str) -> None:
    one = program()
    before, process = code(one), FakeProcess(one)
    with session(process) as of:
        with pytest.raises(UsageError):
            of.insert(point, "count")
        assert code(one) == before


def test_inserting_into_an_ended_program_is_refused() -> None:
    one = program()
    process = FakeProcess(one)
    with session(process) as of:
        of.insert("leaf:entry", "count")
        one.finish()
        with pytest.raises(GilkError):
            of.insert("loop:entry", "count")
        assert of.counts() == {"plain:leaf:entry": alone()[1][one.at("leaf")]}
    with pytest.raises(TargetError) as caught:
        session(process)
    assert caught.value.slug == "no-such-process"
