# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whatever is in the memory, readers return, and report impossible contents."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gilk.trace.d.aggregations import AggregationReader
from gilk.trace.d.drops import Drops
from gilk.trace.d.layout import BufferPolicy, Mark
from gilk.trace.d.memory import MemoryOptions
from gilk.trace.d.records import Records
from tests.native.d.session import KNOWN, Shared

EXTREMES = (
    0,
    1,
    31,
    32,
    4096,
    8192,
    (1 << 32) - 1,
    1 << 40,
    (1 << 62) + 32,
    (1 << 63) - 32,
    (1 << 64) - 32,
    (1 << 64) - 1,
)


def shared(policy: BufferPolicy) -> Shared:
    return Shared(
        MemoryOptions(
            2, 4096, policy, aggsize=8192, dynvarsize=1024, specsize=1024, aggregations=len(KNOWN), scratches=2
        )
    )


def use(made: Shared) -> None:
    for number in range(30):
        session = made.session(cpu=number % 3, time=number)
        session.record(number, bytes(number * 5))
        for which in KNOWN:
            session.aggregate(which, number.to_bytes(8, "little"), number)
        session.dynamic_store(1, number.to_bytes(8, "little"), 8, b"12345678", 8)
        session.dynamic_delete(1, (number // 2).to_bytes(8, "little"), 8)
        session.commit_speculation(session.speculation() if number % 2 else 1)
        session.end()


def read(made: Shared, records: Records, aggregations: AggregationReader, drops: Drops) -> None:
    records.poll()
    aggregations.snapshot()
    for which in KNOWN:
        (aggregations.clear if which.number % 2 else aggregations.trunc)(which.number)
    aggregations.switch()
    aggregations.retire()
    drops.look()
    assert 0 <= aggregations.fill() <= 1
    assert made.memory.state in (0, 1, 2) and made.memory.exit_status != -1
    made.memory.reap(lambda tid: True)


@settings(max_examples=40)
@given(
    policy=st.sampled_from(BufferPolicy),
    seed=st.integers(0, 1 << 30),
    scribbles=st.lists(st.tuples(st.integers(0, 1 << 30), st.sampled_from(EXTREMES)), max_size=30),
    share=st.sampled_from([0.0, 0.001, 0.1, 1.0]),
)
def test_readers_return_for_random_memory(
    policy: BufferPolicy, seed: int, scribbles: list[tuple[int, int]], share: float
) -> None:
    made = shared(policy)
    parts = (
        Records(made.memory, gone=lambda tid: tid % 2 == 0),
        AggregationReader(made.memory, KNOWN),
        Drops(made.memory),
    )
    use(made)
    read(made, *parts)
    words = np.ndarray((made.layout.size // 8,), "<u8", made.map)
    noise = np.random.default_rng(seed)
    chosen = np.flatnonzero(noise.random(len(words)) < share)
    words[chosen] = noise.integers(0, 1 << 64, len(chosen), "u8")
    for at, value in scribbles:
        words[at % len(words)] = value
    read(made, *parts)
    use(made)
    read(made, *parts)
    parts[0].poll(final=True)
    for part in parts:
        assert {error.slug for error in part.errors} <= {"stream-corrupt"}


@pytest.mark.parametrize("name", ["wpos", "limit"])
@pytest.mark.parametrize("value", EXTREMES)
@pytest.mark.parametrize("policy", list(BufferPolicy))
def test_readers_return_for_impossible_positions(name: str, value: int, policy: BufferPolicy) -> None:
    made = shared(policy)
    use(made)
    setattr(made.memory.heads[0], name, value)
    reader = Records(made.memory)
    reader.poll()
    use(made)
    reader.poll(final=True)
    assert reader.poll(final=True) is not None


@pytest.mark.parametrize(
    "mark", [0, Mark.DONE, 1 << 40 | Mark.DONE, 1 << 40 | 65535 << 2 | Mark.DONE, 1 << 40 | 1 << 2]
)
def test_readers_return_for_impossible_marks(mark: int) -> None:
    made = shared(BufferPolicy.SWITCH)
    for _ in range(3):
        made.session().record(1, b"x" * 40)
        made.session(cpu=1).record(2, b"y")
    made.memory.marks(0)[3] = mark
    reader = Records(made.memory)
    assert [record.epid for record in reader.poll()] == [2, 2, 2], "the other buffer goes on"
    assert [error.slug for error in reader.errors] == ["stream-corrupt"]
    assert reader.poll(final=True) == [] and len(reader.errors) == 1


def test_impossible_entries_are_left_out() -> None:
    made = shared(BufferPolicy.SWITCH)
    use(made)
    reader = AggregationReader(made.memory, KNOWN)
    whole = reader.snapshot()
    slots = made.memory.slots(0, 0)
    used = [place for place, slot in enumerate(slots) if slot]
    slots[random.Random(1).choice(used)] = 0xFFFFFFFF
    slots[slots.tolist().index(0)] = slots[used[0]] if slots[used[0]] != 0xFFFFFFFF else slots[used[1]]
    found = reader.snapshot()
    assert len(found) >= len(whole) - 1
    assert [error.slug for error in reader.errors] == ["stream-corrupt"]
    assert "2 impossible entries" in reader.errors[0].message
