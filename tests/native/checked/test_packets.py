# SPDX-License-Identifier: LGPL-2.1-or-later
"""Packets that the driver takes from structures of any content, counted step by step."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

import pytest

from gilk.lang.data import PACKET_HEAD
from gilk.trace.d.memory import MemoryOptions
from tests.native.checked.counted import Bench, Called

MOST = 17  # ILK_D_FRAGMENTS
NOWHERE = 1 << 46  # an address without memory


class Packets:
    """Packets in memory of this process, each as library.c has them."""

    def __init__(self) -> None:
        self._kept: list[ctypes.Array[ctypes.c_char]] = []
        self.bench = Bench(MemoryOptions(1, 4096, scratches=0, globals_size=512))

    def bytes(self, data: bytes) -> int:
        self._kept.append(ctypes.create_string_buffer(data, len(data)))
        return ctypes.addressof(self._kept[-1])

    def made(
        self, first: bytes, pages: Sequence[bytes] = (), length: int | None = None, apart: int | None = None
    ) -> int:
        """The address of a packet with these bytes; ``length`` and ``apart`` are what it tells of them instead."""
        found = b"".join(struct.pack("<QQ", self.bytes(page), len(page)) for page in pages)
        return self.described(first, struct.pack("<Q", len(pages)) + found, sum(map(len, pages)), length, apart)

    def described(self, first: bytes, shared: bytes, more: int, length: int | None, apart: int | None) -> int:
        head = self.bytes(b"h" * 24 + shared)
        length, apart = len(first) + more if length is None else length, more if apart is None else apart
        return self.bytes(struct.pack("<IIIIQQ", length, apart, 24, 0, self.bytes(first), head))

    def called(self, packet: int, size: int) -> tuple[Called, int, bytes]:
        """The call, the length that it tells, and the bytes; nothing is left of what was there before."""
        self.bench.begin()
        to = self.bench.put(0, b"\xa5" * size)
        called = self.bench.within("packet", to, packet, size)
        whole = bytes(self.bench.frame[to : to + size])
        taken, length = struct.unpack_from("<II", whole)
        assert taken <= size - PACKET_HEAD
        if called.result:
            assert whole[PACKET_HEAD + taken :] == bytes(size - PACKET_HEAD - taken)
        return called, length, whole[PACKET_HEAD : PACKET_HEAD + taken]

    def taken(self, packet: int, size: int) -> tuple[int, bytes]:
        called, length, data = self.called(packet, size)
        assert called.result and not called.fault
        return length, data


@pytest.fixture
def packets() -> Packets:
    return Packets()


FIRST, PAGES = bytes(range(40)), (b"a" * 100, b"b" * 7, b"c" * 4096)
WHOLE = FIRST + b"".join(PAGES)


@pytest.mark.parametrize("room", [0, 1, 39, 40, 41, 139, 140, 147, 148, 4243, 4244, 7000])
def test_a_packet_begins_with_its_own_bytes_and_goes_on_in_pages(packets: Packets, room: int) -> None:
    assert packets.taken(packets.made(FIRST, PAGES), PACKET_HEAD + room) == (len(WHOLE), WHOLE[:room])


def test_a_packet_without_pages_is_taken_whole(packets: Packets) -> None:
    assert packets.taken(packets.made(FIRST), PACKET_HEAD + 1514) == (len(FIRST), FIRST)
    assert packets.taken(packets.made(b""), PACKET_HEAD + 1514) == (0, b"")


def test_there_is_no_packet_at_address_zero(packets: Packets) -> None:
    assert packets.taken(0, PACKET_HEAD + 64) == (0, b"")


def test_bytes_that_a_packet_does_not_have_are_not_taken(packets: Packets) -> None:
    pages = [b"p"] * 40
    assert packets.taken(packets.made(FIRST, pages), 1000) == (80, FIRST + b"p" * MOST)
    assert packets.taken(packets.made(FIRST, PAGES, length=45), 1000) == (45, b"a" * 45)
    assert packets.taken(packets.made(FIRST, PAGES, apart=1 << 31, length=10), 1000) == (10, b"a" * 10)
    assert packets.taken(packets.made(FIRST, (), length=20), 1000) == (20, FIRST[:20])


def test_memory_that_is_not_there_is_a_fault(packets: Packets) -> None:
    nowhere = struct.pack("<QQQ", 1, NOWHERE, 50)
    without_data, without_head = ((9, 0, 0, 0, NOWHERE, 0), (9, 9, 0, 0, 0, NOWHERE))
    for packet in (
        NOWHERE,
        packets.described(FIRST, nowhere, 50, None, None),
        packets.bytes(struct.pack("<4I2Q", *without_data)),
        packets.bytes(struct.pack("<4I2Q", *without_head)),
    ):
        called, _, _ = packets.called(packet, 200)
        assert called.fault and not called.result


def test_room_outside_of_the_frame_is_an_illegal_operation(packets: Packets) -> None:
    packet = packets.made(FIRST)
    packets.bench.begin()
    for to, size in ((0, 1 << 20), (1 << 40, 64), (1 << 63, 1 << 63)):
        assert not packets.bench.call("packet", to, packet, size).result


def test_a_packet_of_many_full_pages_costs_no_more_than_is_counted(packets: Packets) -> None:
    for size in (1, 8, 400):
        packets.taken(packets.made(b"x" * 3, [b"y" * size] * MOST), PACKET_HEAD + 3 + MOST * size)
