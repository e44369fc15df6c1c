# SPDX-License-Identifier: LGPL-2.1-or-later
"""The driver's check of a message about a uprobe: valid messages are accepted, and all others refused."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from dataclasses import replace

import pytest

from gilk.targets.call_ends import SiteRole
from gilk.targets.kernel import driver_abi
from gilk.targets.kernel.d_messages import INSTRUCTION, UPROBE, DriverProgram, SiteKind, UserFire
from tests.native.checked.library import library

GROUPS = 3
GOOD = UserFire("/bin/true", SiteKind.RETURN, 0x1010, 0x1000, b"\xc3" * 40, True, (1, 0x7FFFFFFF), 2, 9, True)
_U32, _U64 = ctypes.c_uint32, ctypes.c_uint64
#: Members of struct ilk_d_uprobe by their places behind the head, with their formats.
PLACES = {
    "descriptor": (0, "<i"), "kind": (4, "<I"), "group": (8, "<I"), "flags": (16, "<I"), "count": (20, "<I"),
    "length": (55, "<B"), "semaphore": (56, "<Q"), "role": (64, "<I"), "reserved": (68, "<I"), "first": (72, "<I"),
}  # fmt: skip


class Lent:
    """A stand-in for the driver, which keeps the requests."""

    def ask_about(self, path: str, request: int, place: int, body: bytes) -> bytes:
        assert (path, request, place) == ("/bin/true", UPROBE, 0)
        self.body = struct.pack("<i", 7) + body[4:]
        return body


def message(fire: UserFire = GOOD, changed: Mapping[str, int] | None = None) -> bytes:
    """A message as the client makes it, with a descriptor, and with some members changed."""
    lent = Lent()
    program: DriverProgram = DriverProgram.__new__(DriverProgram)
    program._driver = lent  # type: ignore[assignment]
    program.uprobe(fire)
    body = bytearray(lent.body)
    for name, value in (changed or {}).items():
        place, layout = PLACES[name]
        struct.pack_into(layout, body, place, value)
    return driver_abi.message(bytes(body))


def fits(made: bytes, groups: int = GROUPS) -> bool:
    return bool(library().uprobe_fits(made, _U32(len(made)), _U32(groups)))


def test_messages_that_the_client_makes_are_accepted() -> None:
    assert fits(message())
    assert fits(message(replace(GOOD, processes=(), kind=SiteKind.ENTRY, edge=False, deep=False)))
    assert fits(message(replace(GOOD, processes=tuple(range(1, 1025)))))
    assert all(fits(message(replace(GOOD, role=role))) for role in SiteRole)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("descriptor", -1), ("kind", 2), ("kind", 0xFFFFFFFF), ("group", GROUPS), ("flags", 4), ("flags", 1 << 31),
        ("count", 3), ("count", 0xFFFFFFFF), ("length", 0), ("length", INSTRUCTION + 1), ("length", 255),
        ("semaphore", 1), ("semaphore", (1 << 64) - 1), ("role", 7), ("role", 1 << 31),
        ("reserved", 1), ("first", 0), ("first", 1 << 31),
    ],
)  # fmt: skip
def test_malformed_messages_are_refused(name: str, value: int) -> None:
    assert not fits(message(changed={name: value}))


@pytest.mark.parametrize(
    ("semaphore", "size", "lies"),
    [(0, 16, True), (14, 16, True), (16, 16, False), (14, 15, False), ((1 << 64) - 2, 16, False), (1 << 63, 16, False)],
)
def test_a_semaphore_outside_its_file_is_refused(semaphore: int, size: int, lies: bool) -> None:
    made = message(replace(GOOD, offset=0, content=b"\x90", semaphore=semaphore))
    assert bool(library().uprobe_lies_in(made, _U64(size))) is lies


def test_too_many_processes_are_refused() -> None:
    assert not fits(message(replace(GOOD, processes=tuple(range(1, 1026)))))


@pytest.mark.parametrize(
    ("offset", "length", "size", "lies"),
    [
        (0, 1, 1, True), (0, 1, 0, False), (10, 5, 15, True), (10, 5, 14, False), (15, 1, 15, False),
        ((1 << 64) - 1, 1, 100, False), ((1 << 63) - 5, 15, (1 << 63) - 1, False), (0, 15, 1 << 63, False),
    ],
)  # fmt: skip
def test_an_instruction_outside_its_file_is_refused(offset: int, length: int, size: int, lies: bool) -> None:
    made = message(replace(GOOD, offset=offset, content=b"\x90" * length))
    assert bool(library().uprobe_lies_in(made, _U64(size))) is lies
