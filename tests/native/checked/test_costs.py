# SPDX-License-Identifier: LGPL-2.1-or-later
"""Helpers take no more instructions than the checker counts for them, whatever they are given: counted step by step."""

from __future__ import annotations

import pytest

from gilk.trace.d.events import DropKind
from gilk.trace.d.layout import GRANULE, BufferPolicy
from gilk.trace.d.memory import MemoryOptions
from gilk.trace.d.records import Records
from tests.native.checked.counted import Bench

SPECULATIONS = 256  # ILK_D_SPECULATIONS_MAX
AT_ONCE = 1024  # ILK_D_AT_ONCE
NOBODY = 1 << 40


def speculating(policy: BufferPolicy = BufferPolicy.SWITCH, nspec: int = 1, bufsize: int = 4096) -> Bench:
    return Bench(MemoryOptions(1, bufsize, policy, nspec=nspec, specsize=4 * AT_ONCE, scratches=0, globals_size=512))


def record(bench: Bench, size: int) -> int:
    """Make a record of ``size`` bytes, its head included: whether there was room."""
    got = bench.within("reserve", 1, size - GRANULE).result
    if got:
        assert bench.within("commit", bench.put(0, bytes(size)), size - GRANULE).result
    bench.within("end")
    bench.begin()
    return got


def speculate(bench: Bench, sizes: list[int]) -> int:
    """A speculation with records of these sizes: its number."""
    number = bench.within("speculation").result
    for size in sizes:
        assert bench.within("speculate", number).result
        assert record(bench, size)
    return number


def test_a_speculation_is_found_among_as_many_as_there_may_be() -> None:
    bench = speculating(nspec=SPECULATIONS)
    assert [bench.within("speculation").result for _ in range(SPECULATIONS)] == [*range(1, SPECULATIONS + 1)]
    assert bench.within("speculation").result == 0
    assert bench.memory.drops[DropKind.SPECULATION_UNAVAILABLE] == 1


@pytest.mark.parametrize("policy", BufferPolicy)
@pytest.mark.parametrize("size", [GRANULE, 3 * GRANULE, AT_ONCE // 2, AT_ONCE])
def test_a_commit_moves_what_it_may_move_at_once(policy: BufferPolicy, size: int) -> None:
    """With ring the buffer is full of the smallest records, which are given up one by one."""
    bench = speculating(policy)
    if policy is BufferPolicy.RING:
        assert all(record(bench, GRANULE) for _ in range(3 * 4096 // GRANULE))
    elif policy is BufferPolicy.SWITCH:
        assert record(bench, 4096 - size // GRANULE // 2 * GRANULE)  # some find no room
    number = speculate(bench, [size] * (AT_ONCE // size))
    assert bench.within("commit_speculation", number).result
    assert bench.program.settle() == 0
    assert bench.within("speculation").result == number  # it is free again


def test_what_a_commit_leaves_is_settled() -> None:
    bench = speculating(bufsize=4 * AT_ONCE)
    number = speculate(bench, [AT_ONCE, GRANULE])
    assert bench.within("commit_speculation", number).steps < 200
    assert bench.within("speculation").result == 0
    assert bench.memory.drops[DropKind.SPECULATION_BUSY] == 1
    records = Records(bench.memory, lambda tid: False)
    assert not records.poll()
    assert bench.program.settle() == 2 and bench.program.settle() == 0
    assert [len(one.data) for one in records.poll()] == [AT_ONCE - GRANULE, 0]
    assert bench.within("speculation").result == number


def test_a_speculation_that_is_being_written_is_left_until_that_is_done() -> None:
    """By whoever commits it meanwhile, as another processor's clause would; settled only when it is whole."""
    bench = speculating()
    number = bench.within("speculation").result
    bench.within("speculate", number)
    assert bench.within("reserve", 1, 8).result
    assert bench.within("commit_speculation", number).result
    assert bench.program.settle() == 0
    assert bench.within("commit", bench.put(0, bytes(8)), 8).result
    assert bench.program.settle() == 1
    assert len(Records(bench.memory, lambda tid: False).poll()) == 1


@pytest.mark.parametrize("size", [GRANULE, AT_ONCE])
def test_a_discard_is_as_cheap_whatever_was_recorded(size: int) -> None:
    bench = speculating()
    number = speculate(bench, [size] * (4 * AT_ONCE // size))
    assert bench.within("discard_speculation", number).result
    assert not Records(bench.memory, lambda tid: False).poll(final=True)
    assert bench.within("speculation").result == number


def test_a_speculation_that_is_full_counts_what_finds_no_room() -> None:
    bench = speculating()
    number = speculate(bench, [AT_ONCE] * 4)
    assert bench.within("speculate", number).result
    assert not record(bench, GRANULE)
    assert bench.memory.drops[DropKind.SPECULATION] == 1


@pytest.mark.parametrize("name", ["commit_speculation", "discard_speculation"])
def test_no_number_is_of_a_speculation_that_there_is_not(name: str) -> None:
    bench = speculating()
    assert bench.within(name, 0).result and bench.within(name, 1).result
    assert not bench.within(name, 2).result and bench.call(name, NOBODY).fault
