# SPDX-License-Identifier: LGPL-2.1-or-later
"""Records out are records in, in order of time; speculations, faults and drops."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gilk.trace.d.drops import Drops
from gilk.trace.d.events import DropKind, Dropped
from gilk.trace.d.layout import EPID_FAULT, BufferPolicy, FaultData, State
from gilk.trace.d.memory import MemoryOptions
from gilk.trace.d.records import ClauseRecord, Records
from tests.native.d.session import Session, Shared


def shared(
    policy: BufferPolicy = BufferPolicy.SWITCH, bufsize: int = 4096, processors: int = 2, nspec: int = 2
) -> Shared:
    options = MemoryOptions(
        processors, bufsize, policy, aggsize=4096, dynvarsize=0, nspec=nspec, specsize=1024, scratches=1
    )
    return Shared(options)


@settings(max_examples=100)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.integers(0, 3), st.binary(max_size=300), st.booleans()),
            st.none(),
        ),
        max_size=80,
    ),
    policy=st.sampled_from(BufferPolicy),
)
def test_records_are_read_as_they_were_written(
    steps: list[tuple[int, bytes, bool] | None], policy: BufferPolicy
) -> None:
    made = shared(policy)
    reader, drops = Records(made.memory), Drops(made.memory)
    meant: list[ClauseRecord] = []
    taken: list[ClauseRecord] = []
    for time, step in enumerate(steps, 1):
        if step is None:
            taken += reader.poll()
            continue
        cpu, data, keep = step
        session = made.session(cpu=cpu, tid=1000 + cpu, time=time)
        if session.reserve(time, data, len(data)):
            (session.commit if keep else session.discard)()
            if keep:
                meant.append(ClauseRecord(time, time, 1000 + cpu, cpu, data, 77))
    taken += reader.poll(final=True)
    if policy == BufferPolicy.RING:
        assert taken == [record for record in meant if record in taken], "some are missing, in the middle"
        for cpus in ((0, 2), (1, 3)):
            mine = [record for record in meant if record.cpu in cpus]
            kept = [record for record in taken if record.cpu in cpus]
            assert kept == mine[len(mine) - len(kept) :]
            assert not mine or kept
    else:
        assert taken == meant
    dropped = drops.totals()[DropKind.PRINCIPAL]
    assert dropped == 0 or policy == BufferPolicy.SWITCH
    assert not reader.errors


def test_records_that_do_not_fit_are_counted_as_dropped() -> None:
    made = shared()
    session, drops = made.session(cpu=1), Drops(made.memory)
    stored = sum(session.record(1, b"x" * 100) for _ in range(100))
    assert stored == 4096 // 160
    assert drops.look() == (Dropped(DropKind.PRINCIPAL, 1, 100 - stored),)
    assert not session.record(1, b"x" * 5000), "larger than the buffer"
    assert len(Records(made.memory).poll()) == stored
    assert session.record(1, b"x" * 100), "there is room again"


def test_a_record_that_does_not_fit_leaves_the_end_of_the_buffer_to_smaller_ones() -> None:
    made = shared()
    session, drops = made.session(cpu=1), Drops(made.memory)
    assert session.record(1, b"x" * 3000)
    assert not session.record(2, b"y" * 2000), "it fits neither at the end nor at the start"
    assert session.record(3, b"z" * 500)
    assert drops.look() == (Dropped(DropKind.PRINCIPAL, 1, 1),)
    assert [record.epid for record in Records(made.memory).poll()] == [1, 3]


def test_a_large_record_fits_an_empty_buffer_wherever_that_begins() -> None:
    """It lies at the start: the end of the buffer is skipped, and room again once that has been read."""
    made = shared()
    session, reader = made.session(cpu=1), Records(made.memory)
    assert session.record(1, b"x" * 500)
    assert [record.epid for record in reader.poll()] == [1]
    assert not session.record(2, b"y" * 3900)
    assert reader.poll() == []
    assert session.record(3, b"z" * 3900)
    assert [record.epid for record in reader.poll()] == [3]


def test_records_later_than_requested_wait() -> None:
    made = shared()
    for time in (50, 10, 30):
        made.session(cpu=time // 10, time=time).record(time, b"")
    reader = Records(made.memory)
    assert [record.tsc for record in reader.poll(until=30)] == [10, 30]
    made.session(time=40).record(1, b"")
    assert [record.tsc for record in reader.poll()] == [40, 50]


def test_an_incomplete_record_is_waited_for_while_its_thread_lives() -> None:
    made = shared()
    living: set[int] = {5}
    reader = Records(made.memory, gone=lambda tid: tid not in living)
    open_one = made.session(tid=5, time=1)
    open_one.reserve(1, b"a", 1)
    made.session(tid=6, time=2).record(2, b"b")
    assert reader.poll() == []
    open_one.commit()
    assert [record.epid for record in reader.poll()] == [1, 2]
    made.session(tid=5, time=3).reserve(3, b"c", 1)
    made.session(tid=6, time=4).record(4, b"d")
    assert reader.poll() == []
    living.clear()
    assert [record.epid for record in reader.poll()] == [4] and reader.abandoned == 1


def test_a_record_completed_while_its_thread_is_looked_up_is_read() -> None:
    made = shared()
    writer = made.session(tid=5)
    writer.reserve(1, b"a", 1)

    def gone(tid: int) -> bool:
        writer.commit()
        return True

    reader = Records(made.memory, gone)
    assert [record.epid for record in reader.poll()] == [1] and reader.abandoned == 0


def test_a_ring_works_on_after_a_writer_has_died() -> None:
    made = shared(BufferPolicy.RING)
    made.session(tid=5).reserve(1, b"a", 1)
    session = made.session(tid=6)
    assert sum(session.record(2, b"b" * 90) for _ in range(100)) < 100
    reader = Records(made.memory, gone=lambda tid: tid == 5)
    assert reader.poll() == [] and reader.abandoned == 1
    assert sum(session.record(3, b"c" * 90) for _ in range(100)) == 100
    assert {record.epid for record in reader.poll(final=True)} == {3}


def test_a_fault_discards_the_record_and_is_reported() -> None:
    made = shared()
    session = made.session(time=9)
    session.reserve(4, b"half", 4)
    session.lltostr(b"\0" * 256, 1, 99)
    session.end()
    session.report(4, 2, 12)
    (record,) = Records(made.memory).poll()
    assert record.epid == EPID_FAULT and record.tsc == 9
    told = FaultData.from_buffer_copy(record.data)
    assert (told.epid, told.action, told.offset, told.fault, told.address) == (4, 2, 12, 3, 0)


def test_exit_is_reported_once() -> None:
    made = shared()
    made.memory.state = State.ACTIVE
    before = made.memory.exit_status
    made.session().exit(3)
    made.session().exit(4)
    assert (before, made.memory.exit_status, made.memory.state) == (None, 3, State.DRAINING)


def begin(made: Shared, number: int) -> Session:
    session = made.session(time=number)
    session.speculate(number)
    return session


def test_speculations_are_committed_or_discarded() -> None:
    made = shared()
    reader, drops = Records(made.memory), Drops(made.memory)
    session = made.session()
    assert [session.speculation() for _ in range(3)] == [1, 2, 0]
    assert drops.look() == (Dropped(DropKind.SPECULATION_UNAVAILABLE, 0, 1),)
    for number in (1, 2, 1, 0, 7):
        speculative = begin(made, number)
        speculative.record(10 + number, b"x" * number)
    assert reader.poll() == []
    faulty = begin(made, 1)
    faulty.reserve(99, b"", 0)
    faulty.discard()
    session.commit_speculation(1)
    session.discard_speculation(2)
    assert [(record.epid, record.data) for record in reader.poll()] == [(11, b"x")] * 2
    session.commit_speculation(2)
    assert begin(made, 2).record(5, b"") is False, "it is not active"
    assert session.speculation() == 1 and drops.look() == () and reader.poll() == []


def test_a_speculation_with_writers_is_closed_by_the_last() -> None:
    made = shared(nspec=1)
    drops, session = Drops(made.memory), made.session()
    assert session.speculation() == 1
    writers = [begin(made, 1) for _ in range(2)]
    for number, writer in enumerate(writers):
        writer.reserve(number, b"abc", 3)
    session.commit_speculation(1)
    assert session.speculation() == 0
    assert drops.look() == (Dropped(DropKind.SPECULATION_BUSY, 0, 1),)
    reader = Records(made.memory)
    writers[1].end()
    assert reader.poll() == []
    writers[0].end()
    assert [record.epid for record in reader.poll()] == [0, 1]
    assert session.speculation() == 1


def test_a_full_speculation_drops() -> None:
    made = shared()
    session, drops = made.session(), Drops(made.memory)
    session.speculation()
    speculative = begin(made, 1)
    assert sum(speculative.record(1, b"x" * 30) for _ in range(40)) == 16
    assert drops.look() == (Dropped(DropKind.SPECULATION, 0, 24),)
    session.commit_speculation(1)
    assert len(Records(made.memory).poll()) == 16


@pytest.mark.parametrize("size", [1, 8, 24, 200])
def test_global_and_thread_local_variables_are_stored_loaded_and_forgotten(size: int) -> None:
    made = Shared(MemoryOptions(1, largest_variable=24 + size, dynvarsize=1 << 14))
    one, two = made.session(tid=1), made.session(tid=2)
    room = bytearray(size)
    view = (ctypes.c_char * size).from_buffer(room)
    for variable in (1, 1 | 1 << 31):
        assert not one.dynamic_load(variable, b"key", 3, view, size) and not any(room)
        assert one.dynamic_store(variable, b"key", 3, b"v" * size, size)
        assert one.dynamic_load(variable, b"key", 3, view, size) and room == b"v" * size
        assert two.dynamic_load(variable, b"key", 3, view, size) is (variable == 1)
        assert not one.dynamic_load(variable, b"kez", 3, view, size)
    assert [made.memory.forget(lambda tid: tid == 1) for _ in range(2)] == [1, 0]
    assert not one.dynamic_load(1 | 1 << 31, b"key", 3, view, size)
    one.dynamic_delete(1, b"key", 3)
    assert not one.dynamic_load(1, b"key", 3, view, size)


@settings(max_examples=30)
@given(steps=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), max_size=300))
def test_variables_agree_with_a_dictionary(steps: list[tuple[int, int]]) -> None:
    made = Shared(MemoryOptions(1, largest_variable=16, dynvarsize=32 * 64))
    session, held, room = made.session(), dict[int, int](), ctypes.create_string_buffer(8)
    for number, (key, value) in enumerate(steps):
        name = key.to_bytes(8, "little")
        if value:
            assert session.dynamic_store(1, name, 8, (number * 4 + value).to_bytes(8, "little"), 8)
            held[key] = number * 4 + value
        else:
            session.dynamic_delete(1, name, 8)
            held.pop(key, None)
    for key in range(61):
        there = session.dynamic_load(1, key.to_bytes(8, "little"), 8, room, 8)
        assert there == (key in held) and int.from_bytes(room.raw, "little") == held.get(key, 0)
    full = [session.dynamic_store(2, key.to_bytes(8, "little"), 8, b"12345678", 8) for key in range(200)]
    drops = Drops(made.memory).totals()[DropKind.DYNAMIC]
    assert drops == full.count(False) > 0
