# SPDX-License-Identifier: LGPL-2.1-or-later
"""The runtime of a process, on the host of tests: blocks, instruments, records, gates, and what handlers are shown."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from gilk.build.toolchain import NATIVE, flags
from gilk.trace import layout
from gilk.trace.drain import Drain
from gilk.trace.layout import Geometry, Shared
from tests.native.host import HOSTS, WAITS, TestHost, build

SOURCES = [Path(__file__).with_name("harness.c"), *sorted((NATIVE / "runtime").glob("*.c"))]
PAIR, TEXT = 1, 3  # record classes
CLIENTS_NUMBER = 4242  # of this process, in harness.c
FUNCTION = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_uint64), ctypes.c_uint32)
Registers = ctypes.c_uint64 * 18


def register(name: str) -> int:
    return layout.REGISTERS.index(name)


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    alias = "-Wl,--defsym=gilk_control=gilk_params"
    loaded = ctypes.CDLL(str(build(SOURCES, "runtime", *flags(), "-shared", "-fPIC", alias, *HOSTS["test"])))
    loaded.t_block.restype = ctypes.c_void_p
    return loaded


@pytest.fixture
def host(library: ctypes.CDLL) -> Iterator[TestHost]:
    found = TestHost.of(library)
    found.reset()
    yield found
    found.reset()


class Arena:
    """What the client has: the shared memory, of two threads."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.geometry = Geometry.plan(1, {PAIR, TEXT}, threads=2, ring_bytes=4096)
        self.map = mmap.mmap(-1, self.geometry.size)
        self.geometry.initialise(memoryview(self.map))
        self.shared, self.drain = Shared(self.geometry, self.map), Drain(self.geometry, self.map)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.gate = np.frombuffer(self.map, layout.GATE, 1, layout.GATES_AT)[0]
        library.t_open(ctypes.c_void_p(self.address), None)

    def blocks(self) -> list[int]:
        """The tid of each, 0 of those that are free."""
        return [int(head["tid"]) if head["state"] else 0 for head in self.shared.heads]


@pytest.fixture
def arena(library: ctypes.CDLL, host: TestHost) -> Arena:
    return Arena(library)


def in_thread(function: Callable[[], object]) -> object:
    got: list[object] = []
    thread = threading.Thread(target=lambda: got.append(function()))
    thread.start()
    thread.join()
    return got[0]


# Blocks.


def test_a_thread_has_one_block(library: ctypes.CDLL, arena: Arena, host: TestHost) -> None:
    with host.stopped(99):
        assert library.t_claim() == 1
    head = arena.shared.heads[0]
    assert (head["pid"], head["tid"], head["birth"]) == (CLIENTS_NUMBER, threading.get_native_id(), 99)
    assert library.t_block() == arena.address + arena.geometry.block_offset(0)
    assert library.t_claim() == 1
    assert arena.blocks() == [threading.get_native_id(), 0]
    assert arena.shared.control["next"] == 1


def test_there_are_as_many_as_there_are(library: ctypes.CDLL, arena: Arena) -> None:
    assert library.t_claim() == 1 and in_thread(library.t_claim) == 1
    assert arena.blocks()[0] != arena.blocks()[1] and all(arena.blocks())
    assert [in_thread(library.t_claim) for _ in range(3)] == [0] * 3
    assert (arena.shared.control["lost"], arena.shared.control["exhausted"]) == (3, 1)


def test_a_block_that_is_refused_is_had_later(library: ctypes.CDLL, arena: Arena, host: TestHost) -> None:
    with host.without_room():
        assert library.t_claim() == 0
    assert (arena.shared.control["lost"], arena.shared.control["exhausted"]) == (1, 0)
    assert arena.blocks() == [0, 0]
    assert library.t_claim() == 1


def test_a_child_takes_a_block_of_its_own(library: ctypes.CDLL, arena: Arena) -> None:
    """Its key is gone, and its number is another, so that the owner that it finds is not itself."""
    library.t_claim()
    child = os.fork()
    if not child:
        library.t_forked()
        os._exit(library.t_claim())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    head = Shared(arena.geometry, arena.map).heads[0]
    assert (head["pid"], head["tid"]) == (CLIENTS_NUMBER, threading.get_native_id())
    assert arena.blocks()[1] == child and arena.shared.heads[1]["pid"] == child


# Instruments.


class Instrument:
    """Notes what it is called with; ``then`` is done in it."""

    def __init__(self, then: Callable[[], object] = bool) -> None:
        self.calls: list[tuple[int, int]] = []  # rip, iid

        def called(registers: ctypes._Pointer[ctypes.c_uint64], iid: int) -> None:
            self.calls.append((registers[register("rip")], iid))
            then()

        self.function = FUNCTION(called)


def dispatch(library: ctypes.CDLL, instrument: Instrument, iid: int, calls_out: bool = False) -> list[int]:
    """The registers that it had; RSP from where the call lies."""
    registers = Registers(*range(1, 19))
    library.t_dispatch(registers, instrument.function, ctypes.c_uint64(0x1234), ctypes.c_uint64(16), iid, calls_out)
    return list(registers)


@pytest.mark.parametrize("calls_out", [False, True])
def test_an_instrument_is_shown_the_original_state(library: ctypes.CDLL, arena: Arena, calls_out: bool) -> None:
    instrument = Instrument()
    registers = dispatch(library, instrument, 7, calls_out)
    assert instrument.calls == [(0x1234, 7)]
    expected = list(range(1, 19))
    expected[register("rip")], expected[register("rsp")] = 0x1234, 32 + 16
    assert registers == expected


def test_no_instrument_runs_in_a_thread_without_a_block(library: ctypes.CDLL, arena: Arena, host: TestHost) -> None:
    with host.without_room():
        dispatch(library, instrument := Instrument(), 7)
    assert not instrument.calls and arena.shared.control["lost"] == 1


def test_what_an_instrument_calls_runs_none_that_calls_out(library: ctypes.CDLL, arena: Arena) -> None:
    inner = Instrument()
    outer = Instrument(lambda: [dispatch(library, inner, 2, calls_out) for calls_out in (True, False, True)])
    dispatch(library, outer, 1, calls_out=True)
    assert (len(outer.calls), len(inner.calls)) == (1, 1)
    assert arena.shared.heads[0]["nested"] == 2 and arena.shared.heads[0]["busy"] == 0


# Records.


def test_records_carry_the_clock(library: ctypes.CDLL, arena: Arena, host: TestHost) -> None:
    library.t_claim()
    with host.stopped(5000):
        library.t_log_pair(ctypes.c_uint64(11), ctypes.c_uint64(22), 3)
        library.t_log_string(b"some text", 4)
        registers = Registers(*range(18))
        library.t_log_registers(registers, 5)
    rows = {int(row["iid"]): row for chunk in arena.drain.poll() for row in chunk.records}
    assert {int(row["tsc"]) for row in rows.values()} == {5000}
    assert (rows[3]["value"], rows[3]["extra"]) == (11, 22)
    assert bytes(rows[4]["text"][: rows[4]["length"]]) == b"some text"
    assert (rows[5]["reg"] == range(18)).all()


def test_a_record_that_finds_no_room_is_counted(library: ctypes.CDLL, arena: Arena, host: TestHost) -> None:
    library.t_claim()
    with host.without_room(2, 3):
        for value in range(5):
            library.t_log_pair(ctypes.c_uint64(value), ctypes.c_uint64(0), 3)
    (chunk,) = arena.drain.poll()
    assert chunk.records["value"].tolist() == [0, 3, 4]
    assert arena.drain.drops() == 2


# Gates.


def armed(arena: Arena, left: int, rounds: int = 0) -> None:
    arena.gate["left"], arena.gate["rounds"], arena.gate["state"] = left, rounds, layout.ARMED


def test_a_gate_is_reached_by_the_hit_that_is_waited_for(library: ctypes.CDLL, arena: Arena, host: TestHost) -> None:
    armed(arena, left=3)
    with host.stopped(777):
        for reached in (False, False, True, True):
            library.t_gate(Registers(), 0)
            assert (arena.gate["state"] == layout.REACHED) == reached
    assert (arena.gate["tsc"], arena.gate["pid"]) == (777, CLIENTS_NUMBER)
    assert arena.gate["tid"] == threading.get_native_id()
    assert (host.wakes, host.waits, arena.gate["frame"]) == (1, 0, 0)


def test_a_thread_is_held_for_its_rounds_and_no_longer(library: ctypes.CDLL, arena: Arena, host: TestHost) -> None:
    armed(arena, left=1, rounds=5)
    frames = []
    on_wait = WAITS(lambda word, value, ns: frames.append((int(arena.gate["frame"]), word[0], value, ns)))
    host.on_wait = on_wait
    library.t_gate(registers := Registers(), 0)
    assert frames == [(ctypes.addressof(registers), layout.REACHED, layout.REACHED, 10_000_000)] * 5
    assert (arena.gate["rounds"], arena.gate["frame"]) == (0, 0)


def test_a_client_lets_go_early(library: ctypes.CDLL, arena: Arena, host: TestHost) -> None:
    armed(arena, left=1, rounds=1000)

    def closed(*_: object) -> None:
        if host.waits == 3:
            arena.gate["state"] = layout.CLOSED

    on_wait = WAITS(closed)
    host.on_wait = on_wait
    library.t_gate(Registers(), 0)
    assert host.waits == 3 and arena.gate["rounds"] == 997


def test_who_reaches_it_later_takes_its_place(library: ctypes.CDLL, arena: Arena, host: TestHost) -> None:
    """The first goes on, since the client now waits for another."""
    armed(arena, left=1, rounds=10)
    second = Registers()

    def again(*_: object) -> None:
        if host.waits == 1:
            armed(arena, left=1, rounds=2)
            library.t_gate(second, 0)

    on_wait = WAITS(again)
    host.on_wait = on_wait
    library.t_gate(Registers(), 0)
    assert host.waits == 1 + 2 and arena.gate["frame"] == 0


# Signals: the ucontext of a handler says where it has interrupted the thread.

RSP, RIP = 40 + 15 * 8, 40 + 16 * 8  # in it, sys/ucontext.h
AFTER = 1 << 63
#: Patches at 0x5000 to 0x5020: before and behind the instruments of 0x400000, then what was at 0x400004.
PATCHES = [(0x5000, 0x400000), (0x5008, 0x400000 | AFTER), (0x5010, 0x400004), (0x5020, 0)]
DISPLACED = [(0x400000, 0x5000), (0x400004, 0x5010)]


class Handler:
    """A handler of a signal, from its entry to its return."""

    def __init__(self, library: ctypes.CDLL, arena: Arena) -> None:
        rows = [word for row in (*PATCHES, *DISPLACED) for word in row]
        self._rows = struct.pack(f"<QQ{len(rows)}Q", len(PATCHES), len(DISPLACED), *rows)
        library.t_open(ctypes.c_void_p(arena.address), self._rows)
        self._library = library
        self._stack = ctypes.create_string_buffer(4096)
        self._info = ctypes.create_string_buffer(128)
        self.context = ctypes.addressof(self._stack) + 1024

    def word(self, at: int) -> ctypes.c_uint64:
        return ctypes.c_uint64.from_address(self.context + at)

    def enter(self, rip: int, go: bool = False, signal: int = 10, code: int = 0) -> int:
        """What it is shown, of a thread that is at ``rip``."""
        self.word(RIP).value, self.word(RSP).value = rip, 0x7000
        self._info[8:12] = struct.pack("<i", code)
        registers = Registers()
        registers[register("rdx")], registers[register("rsp")] = self.context, self.context - 8
        registers[register("rdi")], registers[register("rsi")] = signal, ctypes.addressof(self._info)
        enter = self._library.t_signal_enter_go if go else self._library.t_signal_enter
        enter(registers)
        return self.word(RIP).value

    def leave(self) -> int:
        """Where the thread goes on."""
        registers = Registers()
        registers[register("rsp")] = self.context
        self._library.t_signal_leave(registers)
        return self.word(RIP).value


@pytest.fixture
def handler(library: ctypes.CDLL, arena: Arena) -> Handler:
    return Handler(library, arena)


SHOWN = [(0x5000, 0x400000), (0x5007, 0x400000), (0x5009, 0x400000), (0x5010, 0x400004), (0x1000, 0x1000)]


@pytest.mark.parametrize(("rip", "shown"), [*SHOWN, (0x5021, 0x5021), (0x400000, 0x400000)])
def test_a_handler_is_shown_the_original_address(handler: Handler, arena: Arena, rip: int, shown: int) -> None:
    assert handler.enter(rip) == shown
    assert arena.shared.control["noted"] == 1
    assert handler.leave() == rip, "the thread goes on where it was"
    assert arena.shared.control["noted"] == 0


def test_where_a_handler_sends_its_thread_it_goes_in_the_patch(handler: Handler, arena: Arena) -> None:
    handler.enter(0x5000)
    handler.word(RIP).value = 0x400004
    assert handler.leave() == 0x5010
    handler.enter(0x5000)
    handler.word(RIP).value = 0x400001
    assert handler.leave() == 0x400001
    assert arena.shared.control["noted"] == 0


def test_a_handler_that_changes_its_stack_goes_where_it_says(handler: Handler) -> None:
    """As at 0x400000 with another stack: the instruments there are run."""
    handler.enter(0x5008)
    handler.word(RSP).value += 8
    assert handler.leave() == 0x5000


def test_a_note_that_a_jump_has_left_is_forgotten(handler: Handler, arena: Arena) -> None:
    handler.enter(0x5000)
    assert handler.enter(0x5010) == 0x400004
    assert arena.shared.control["noted"] == 1
    assert handler.leave() == 0x5010


def test_what_the_program_calls_as_a_function_is_no_handler(handler: Handler, library: ctypes.CDLL) -> None:
    handler.word(RIP).value = 0x5000
    registers = Registers()
    registers[register("rdx")], registers[register("rsp")] = handler.context, handler.context - 64
    library.t_signal_enter(registers)
    assert handler.word(RIP).value == 0x5000


@pytest.mark.parametrize(
    ("rip", "code", "shown"),
    [(0x5000, 0, 0x400000), (0x5004, 0, 0x5004), (0x5008, 0, 0x5008), (0x5004, 1, 0x400000), (0x5008, 1, 0x400000)],
)
def test_go_is_shown_it_where_the_whole_state_is_the_original_one(
    handler: Handler, rip: int, code: int, shown: int
) -> None:
    """Or where the instruction itself has faulted (SIGSEGV, by the kernel)."""
    assert handler.enter(rip, go=True, signal=11, code=code) == shown
