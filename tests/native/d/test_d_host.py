# SPDX-License-Identifier: LGPL-2.1-or-later
"""Clauses on a host that fails them: no room, memory that goes, a clock that stands still."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import threading
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from gilk.lang.data import Aggregating, Aggregation, Function
from gilk.trace.d.aggregations import AggregationReader
from gilk.trace.d.drops import DropKind, Drops
from gilk.trace.d.memory import MemoryOptions
from gilk.trace.d.records import Records
from tests.native.d.session import Session, Shared
from tests.native.host import TestHost

ADDRESS, SCRATCH = 1, 5
NOBODY_ASKED = 0xFFFFFFFF  # GD_NO_CPU
COUNT = Aggregation(1, "n", Aggregating(Function.COUNT), (), 16)
SUM = Aggregation(2, "s", Aggregating(Function.SUM), (), 16)
KEY = struct.pack("<QQ", 1, 2)
PAGE = mmap.PAGESIZE


@pytest.fixture
def shared(test_host: TestHost) -> Shared:
    return Shared(
        MemoryOptions(4, strsize=64, aggregations=3, largest_variable=48, nspec=2, scratches=2, globals_size=512)
    )


@pytest.fixture
def memory() -> Iterator[tuple[mmap.mmap, int]]:
    """Two pages of dots, and their address."""
    made = mmap.mmap(-1, 2 * PAGE)
    made[:] = b"." * 2 * PAGE
    view = ctypes.c_char.from_buffer(made)
    yield made, ctypes.addressof(view)
    del view


def drops(shared: Shared) -> dict[DropKind, int]:
    return {kind: total for kind, total in Drops(shared.memory).totals().items() if total}


# Time.


def test_records_have_the_hosts_time_and_processor(shared: Shared, test_host: TestHost) -> None:
    test_host.processor = 3
    with test_host.stopped(77):
        for _ in range(3):
            assert shared.session(cpu=NOBODY_ASKED, time=0).record(1, b"x" * 8)
    records = Records(shared.memory).poll(final=True)
    assert [(record.tsc, record.cpu) for record in records] == [(77, 3)] * 3


def test_the_clock_is_read_once_for_an_event(shared: Shared, test_host: TestHost) -> None:
    test_host.clock = 1000
    session = shared.session(time=0)
    for _ in range(3):
        session.record(1, b"x" * 8)
    assert {record.tsc for record in Records(shared.memory).poll(final=True)} == {1000}
    assert test_host.clock == 1001


def test_vtimestamp_is_that_of_the_host(shared: Shared, test_host: TestHost) -> None:
    test_host.thread_time = 12345
    assert shared.session().vtimestamp() == 12345


def test_rand_depends_on_the_clock(shared: Shared, test_host: TestHost) -> None:
    with test_host.stopped(5):
        first = shared.session().rand()
        assert shared.session().rand() == first
    assert shared.session().rand() != first


def given(shared: Shared, ns_of_a_tick: int) -> None:
    """Set the part of struct gd_environment that is about the clock."""
    shared.memory.globals()[:32] = struct.pack("<QQQII", 0, 10**10, 0, ns_of_a_tick << 16, 16)


def test_a_chill_lasts_as_long_as_asked(shared: Shared, test_host: TestHost) -> None:
    given(shared, 10)
    assert shared.session().chill(1000)
    spent = test_host.clock - 1
    assert spent * 10 >= 1000, "it was over too early"
    assert spent < 1000 / 10 * 2 + 10, "two readings a round, and some at the start"


def test_a_chill_ends_though_the_clock_stands_still(shared: Shared, test_host: TestHost) -> None:
    given(shared, 0)
    assert shared.session().chill(1000)
    assert 8 * 1000 <= test_host.clock < 3 * 8 * 1000


# Memory.


def test_a_load_from_memory_that_disappears_is_a_fault(
    shared: Shared, test_host: TestHost, memory: tuple[mmap.mmap, int]
) -> None:
    content, at = memory
    room = ctypes.create_string_buffer(32)
    with test_host.without(at + 100, 8):
        for start, size in ((at + 100, 8), (at + 107, 1), (at + 93, 8), (at + 90, 32)):
            session = shared.session()
            assert not session.load(room, start, size)
            assert (session.fault(), session.fault_address()) == (ADDRESS, start)
            session = shared.session()
            assert not session.store(start, b"x" * 32, size)
            assert session.fault() == ADDRESS
        for start, size in ((at + 92, 8), (at + 108, 8)):
            assert shared.session().load(room, start, size) and shared.session().store(start, b"x" * 8, 8)
    assert shared.session().load(room, at + 100, 8) and room.raw[:8] == b"." * 8
    assert content[92:116] == b"x" * 8 + b"." * 8 + b"x" * 8


def test_a_string_whose_second_page_disappears_is_a_fault(
    shared: Shared, test_host: TestHost, memory: tuple[mmap.mmap, int]
) -> None:
    content, at = memory
    content[PAGE - 8 : PAGE] = b"whole\0.."
    with test_host.without(at + PAGE, PAGE):
        assert shared.session().text("copyin_string", at + PAGE - 8, 64) == b"whole"
        session = shared.session()
        session.text("copyin_string", at + PAGE - 2, 64)
        assert (session.fault(), session.fault_address()) == (ADDRESS, at + PAGE)


CODE = 0x10000  # to 0x20000, of which nothing is known but that it is code


@pytest.mark.parametrize(("lost", "frames"), [(2 * PAGE, 5), (PAGE + 64, 4), (PAGE, 3)])
def test_a_stack_ends_at_memory_that_disappears_without_a_fault(
    test_host: TestHost, memory: tuple[mmap.mmap, int], lost: int, frames: int
) -> None:
    """Frames are found by RBP: two in the page of RSP, two in the next one, which has to be asked for."""
    shared = Shared(MemoryOptions(1, unwind_size=PAGE, scratches=1, scratchsize=1 << 14))
    table = struct.pack("<4Q32xQ6QII", 64, 0, 1, 0, 1, CODE, 2 * CODE, *[0] * 6)  # gu_head, gu_map of one gu_module
    shared.memory.unwind()[: len(table)] = table
    content, at = memory
    places = [PAGE - 64, PAGE - 32, PAGE + 16, PAGE + 64]
    for number, (place, following) in enumerate(zip(places, [*places[1:], -at], strict=True)):
        content[place : place + 16] = struct.pack("<QQ", at + following, CODE + 1 + number)
    registers = (ctypes.c_uint64 * 18)()
    registers[4] = registers[5] = at + PAGE - 64
    registers[16] = CODE
    room, session = (ctypes.c_uint64 * 8)(), shared.session()
    with test_host.without(at + lost, PAGE):
        assert session.walk(registers, room, 8) == frames
    assert list(room)[:frames] == [CODE + number for number in range(frames)]
    assert session.fault() == 0


def test_signals_are_noted_for_later(shared: Shared, test_host: TestHost) -> None:
    session = shared.session()
    for number in (12, 10, 12):
        assert session.ask_signal(number)
    assert test_host.signals == 0
    session.send_signals()
    assert (test_host.signals, test_host.signal_number) == (2, 12)
    assert (test_host.signal_pid, test_host.signal_tid) == (os.getpid(), threading.get_native_id())


# Room.


def record(session: Session) -> bool:
    return session.record(1, b"r" * 24)


def speculate(session: Session) -> bool:
    session.speculate(session.speculation())
    return session.record(2, b"s" * 24)


CASES: dict[str, tuple[Callable[[Session], object], DropKind]] = {
    "record": (record, DropKind.PRINCIPAL),
    "aggregation": (lambda session: session.aggregate(SUM, KEY, 5), DropKind.AGGREGATION),
    "aggregation without a key": (lambda session: session.aggregate(COUNT, b"", 0), DropKind.AGGREGATION),
    "variable": (lambda session: session.dynamic_store(1, KEY, 16, b"v" * 8, 8), DropKind.DYNAMIC),
    "speculation": (speculate, DropKind.SPECULATION),
}


@pytest.mark.parametrize("name", CASES)
def test_data_without_room_are_counted_as_dropped(shared: Shared, test_host: TestHost, name: str) -> None:
    deed, kind = CASES[name]
    with test_host.without_room():
        deed(session := shared.session())
        assert session.fault() == 0
    assert drops(shared) == {kind: 1}
    deed(shared.session())
    assert drops(shared) == {kind: 1}, "there is room again"


def test_an_allocation_without_scratch_memory_is_a_fault(shared: Shared, test_host: TestHost) -> None:
    with test_host.without_room():
        session = shared.session()
        assert session.alloca(8) is None and session.fault() == SCRATCH
        session.end()
    assert not any(shared.memory.scratch_owners)


def clause(session: Session) -> None:
    """A clause that uses everything that takes room, in turn."""
    record(session)
    session.alloca(16)
    session.aggregate(COUNT, b"", 0)
    session.aggregate(SUM, KEY, 5)
    session.dynamic_store(1, KEY, 16, b"v" * 8, 8)
    session.dynamic_store(1 << 31 | 2, b"", 0, b"w" * 8, 8)
    number = session.speculation()
    session.speculate(number)
    session.record(2, b"s" * 24)
    session.commit_speculation(number)
    session.end()


def left(shared: Shared) -> tuple[list[int], dict[object, tuple[int, ...]], int, int]:
    """The results of a clause: records, aggregations, bytes of variables, scratch slots in use."""
    room = ctypes.create_string_buffer(8)
    found = int(shared.session().dynamic_load(1, KEY, 16, room, 8))
    records = sorted(record.epid for record in Records(shared.memory).poll(final=True))
    rows: dict[object, tuple[int, ...]] = dict(AggregationReader(shared.memory, (COUNT, SUM)).snapshot())
    return records, rows, found, sum(map(bool, shared.memory.scratch_owners))


def test_each_request_for_room_may_fail_separately(shared: Shared, test_host: TestHost) -> None:
    """Then that one thing is missing, and counted or a fault; everything else is there."""
    whole = ([1, 2], {(1, b""): (1,), (2, KEY): (5,)}, 1, 0)
    missing = set()
    for number in count(1):
        made = Shared(MemoryOptions(4, aggregations=3, largest_variable=48, nspec=2, scratches=2))
        session = made.session()
        with test_host.without_room(number, number):
            clause(session)
            asked = test_host.asked
        if asked < number:
            assert left(made) == whole and not drops(made)
            break
        counted, faults = sum(drops(made).values()), int(session.fault() == SCRATCH)
        assert counted + faults == 1, number
        found = left(made)
        assert found[3] == 0, "scratch memory is held"
        missing.add((len(found[0]), len(found[1]), found[2], faults))
    assert missing >= {(1, 2, 1, 0), (2, 1, 1, 0), (2, 2, 0, 0), (2, 2, 1, 1)}
