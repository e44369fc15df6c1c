# SPDX-License-Identifier: LGPL-2.1-or-later
"""Several clients have memory in one process: each thread has a block in the memory of each (abi/gilk_abi.h, Parts)."""

from __future__ import annotations

import ctypes
import threading

from gilk.trace import layout
from tests.native.host import TestHost
from tests.native.runtime.arena import CLIENTS_NUMBER, Arena, Registers, in_thread

IID_BITS = layout.IID_BITS


def come(arena: Arena, number: int, client: Arena | None) -> None:
    """Add or remove a client, as the keeper does."""
    arena.parts[number] = client.address if client else 0
    arena.shared.control["generation"] += 1
    arena.shared.heads["owner"] = 0


def part(arena: Arena, index: int, number: int) -> int:
    """The address of the block of thread ``index`` in the memory of a client."""
    return (arena.block(index) + int(arena.parts_of(index)[number])) & (1 << 64) - 1


def test_a_thread_has_a_block_with_each_client(library: ctypes.CDLL, arena: Arena) -> None:
    clients = {number: Arena(number) for number in (1, 5)}
    for number, client in clients.items():
        come(arena, number, client)
    assert library.t_claim() == 1
    for number, client in clients.items():
        assert part(arena, 0, number) == client.block(0)
        head = client.shared.heads[0]
        assert (head["pid"], head["tid"], head["state"]) == (CLIENTS_NUMBER, threading.get_native_id(), 1)
        assert head["owner"] == arena.shared.heads[0]["owner"] != 0
    assert arena.shared.control["claiming"] == 0


def test_a_thread_claims_a_block_of_a_client_that_comes_later(library: ctypes.CDLL, arena: Arena) -> None:
    """The thread keeps its own block, and those in the memory of earlier clients."""
    first, second = Arena(1), Arena(2)
    come(arena, 1, first)
    library.t_claim()
    come(arena, 2, second)
    assert library.t_claim() == 1
    assert arena.blocks() == first.blocks() == second.blocks() == [threading.get_native_id(), 0]
    assert (part(arena, 0, 1), part(arena, 0, 2)) == (first.block(0), second.block(0))


def test_a_number_reused_by_another_client_gets_a_new_block(library: ctypes.CDLL, arena: Arena) -> None:
    first, second = Arena(1), Arena(1)
    come(arena, 1, first)
    library.t_claim()
    come(arena, 1, None)
    library.t_claim()
    come(arena, 1, second)
    library.t_claim()
    assert part(arena, 0, 1) == second.block(0)


def test_a_thread_without_a_block_of_a_client_uses_the_spare_one_behind_the_last(
    library: ctypes.CDLL, arena: Arena, host: TestHost
) -> None:
    client = Arena(1)
    come(arena, 1, client)
    with host.without_room(2, 2):  # the first asking is for the thread's own
        assert library.t_claim() == 1
    assert part(arena, 0, 1) == client.block(2)
    assert (client.shared.control["lost"], client.blocks()) == (1, [0, 0])
    assert in_thread(library.t_claim) == 1
    assert part(arena, 1, 1) == client.block(0)


def test_recorded_registers_go_to_the_client_of_the_probe(library: ctypes.CDLL, arena: Arena) -> None:
    client = Arena(3)
    come(arena, 3, client)
    library.t_claim()
    library.t_log_registers(Registers(*range(18)), 3 << IID_BITS | 9)
    library.t_log_registers(Registers(*range(18, 36)), 8)
    rows = [row for each in (client, arena) for chunk in each.drain.poll() for row in chunk.records]
    assert [(int(row["iid"]), int(row["reg"][0])) for row in rows] == [(9, 0), (8, 18)]


def test_a_gate_is_in_the_memory_of_its_client(library: ctypes.CDLL, arena: Arena) -> None:
    client = Arena(127)
    come(arena, 127, client)
    for each in (arena, client):
        each.gate["left"], each.gate["state"] = 1, layout.ARMED
    in_thread(lambda: library.t_gate(Registers(), 127 << layout.IID_BITS))
    assert (arena.gate["state"], client.gate["state"]) == (layout.ARMED, layout.REACHED)
    come(arena, 127, None)
    in_thread(lambda: library.t_gate(Registers(), 127 << layout.IID_BITS))
    assert arena.gate["state"] == layout.ARMED
