# SPDX-License-Identifier: LGPL-2.1-or-later
"""The runtime of a process, on the host of tests: blocks, instruments, records, gates."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable

import pytest

from gilk.trace import layout
from gilk.trace.layout import Shared
from tests.native.host import WAITS, TestHost
from tests.native.runtime.arena import CLIENTS_NUMBER, FUNCTION, Arena, Registers, in_thread, register

# Blocks.


def test_a_thread_has_one_block(library: ctypes.CDLL, arena: Arena, host: TestHost) -> None:
    with host.stopped(99):
        assert library.t_claim() == 1
    head = arena.shared.heads[0]
    assert (head["pid"], head["tid"], head["birth"]) == (CLIENTS_NUMBER, threading.get_native_id(), 99)
    assert library.t_block() == arena.block(0)
    assert library.t_claim() == 1
    assert arena.blocks() == [threading.get_native_id(), 0]
    assert arena.shared.control["next"] == 1


def test_threads_beyond_the_number_of_blocks_get_none(library: ctypes.CDLL, arena: Arena) -> None:
    assert library.t_claim() == 1 and in_thread(library.t_claim) == 1
    assert arena.blocks()[0] != arena.blocks()[1] and all(arena.blocks())
    assert [in_thread(library.t_claim) for _ in range(3)] == [0] * 3
    assert (arena.shared.control["lost"], arena.shared.control["exhausted"]) == (3, 1)


def test_a_thread_without_a_block_gets_one_later(library: ctypes.CDLL, arena: Arena, host: TestHost) -> None:
    with host.without_room():
        assert library.t_claim() == 0
    assert (arena.shared.control["lost"], arena.shared.control["exhausted"]) == (1, 0)
    assert arena.blocks() == [0, 0]
    assert library.t_claim() == 1


def test_a_forked_child_claims_a_block_of_its_own(library: ctypes.CDLL, arena: Arena) -> None:
    """The child has no key, and another number, so the block's owner is not the child."""
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
    """An instrument that notes its calls; ``then`` runs in each."""

    def __init__(self, then: Callable[[], object] = bool) -> None:
        self.calls: list[tuple[int, int]] = []  # rip, iid

        def called(registers: ctypes._Pointer[ctypes.c_uint64], iid: int) -> None:
            self.calls.append((registers[register("rip")], iid))
            then()

        self.function = FUNCTION(called)


def dispatch(library: ctypes.CDLL, instrument: Instrument, iid: int, calls_out: bool = False) -> list[int]:
    """Run the instrument. Returns the registers that it had; RSP is that at the place of the call."""
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


def test_instruments_that_call_out_do_not_run_within_an_instrument(library: ctypes.CDLL, arena: Arena) -> None:
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


def test_a_record_without_room_is_counted(library: ctypes.CDLL, arena: Arena, host: TestHost) -> None:
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


def test_a_gate_is_reached_at_the_requested_hit(library: ctypes.CDLL, arena: Arena, host: TestHost) -> None:
    armed(arena, left=3)
    with host.stopped(777):
        for reached in (False, False, True, True):
            library.t_gate(Registers(), 0)
            assert (arena.gate["state"] == layout.REACHED) == reached
    assert (arena.gate["tsc"], arena.gate["pid"]) == (777, CLIENTS_NUMBER)
    assert arena.gate["tid"] == threading.get_native_id()
    assert (host.wakes, host.waits, arena.gate["frame"]) == (1, 0, 0)


def test_a_thread_is_held_for_the_given_rounds(library: ctypes.CDLL, arena: Arena, host: TestHost) -> None:
    armed(arena, left=1, rounds=5)
    frames = []
    on_wait = WAITS(lambda word, value, ns: frames.append((int(arena.gate["frame"]), word[0], value, ns)))
    host.on_wait = on_wait
    library.t_gate(registers := Registers(), 0)
    assert frames == [(ctypes.addressof(registers), layout.REACHED, layout.REACHED, 10_000_000)] * 5
    assert (arena.gate["rounds"], arena.gate["frame"]) == (0, 0)


def test_a_client_may_release_a_held_thread_early(library: ctypes.CDLL, arena: Arena, host: TestHost) -> None:
    armed(arena, left=1, rounds=1000)

    def closed(*_: object) -> None:
        if host.waits == 3:
            arena.gate["state"] = layout.CLOSED

    on_wait = WAITS(closed)
    host.on_wait = on_wait
    library.t_gate(Registers(), 0)
    assert host.waits == 3 and arena.gate["rounds"] == 997


def test_a_thread_that_reaches_a_rearmed_gate_replaces_the_first(
    library: ctypes.CDLL, arena: Arena, host: TestHost
) -> None:
    """The first thread goes on, since the client now waits for another."""
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
