# SPDX-License-Identifier: LGPL-2.1-or-later
"""The places of threads: original addresses, the corresponding places in patches, and the table that the runtime
searches."""

from __future__ import annotations

import random
import struct

from gilk.splice.plan import Equivalence, FunctionPlan, Patch, Site, Splice
from gilk.targets.batch import Batch, pack
from gilk.targets.places import HEAD, Places, ShownPlaces, places_table

CODE, PATCH, BOUNCE, TABLE = 0x1000, 0x900000, 0x1050, 0x700000


def batch() -> Batch:
    equivalences = (
        Equivalence(PATCH, CODE, True), Equivalence(PATCH + 20, CODE, False),
        Equivalence(PATCH + 24, CODE + 4, True), Equivalence(PATCH + 24, CODE + 4, False),
        Equivalence(BOUNCE, CODE, True),
    )  # fmt: skip
    splice = Splice("jump", PATCH, Site(CODE, b"\x90" * 5, b"\xe9\0\0\0\0"), (CODE, CODE + 4, CODE + 6))
    return pack((FunctionPlan("f", (splice,), (Patch(PATCH, b"\x90" * 32),), equivalences),))


def test_a_place_in_a_patch_has_its_original_address() -> None:
    places = Places([batch()])
    assert places.original(PATCH + 20) == (CODE, False)
    assert places.original(BOUNCE) == (CODE, True)
    assert places.original(PATCH + 1) is None


def test_a_displaced_instruction_has_its_place_in_the_patch() -> None:
    places = Places([batch()])
    assert places.is_displaced(CODE + 4)
    assert not places.is_displaced(CODE)
    assert places.patch(CODE + 4, True) == PATCH + 24
    assert places.patch(CODE, False) == PATCH + 20


def test_addresses_are_recognised_as_inside_a_patch() -> None:
    places = Places([batch()])
    assert places.in_patch(PATCH) and places.in_patch(PATCH + 31)
    assert not places.in_patch(PATCH + 32) and not places.in_patch(PATCH - 1)


def floor(rows: list[tuple[int, int]], address: int) -> int:
    return max(((at, to) for at, to in rows if at <= address), default=(0, 0))[1]


def test_the_runtimes_table_lists_patches_without_bounces() -> None:
    table = places_table([batch()], [batch()])
    patches, displaced = struct.unpack_from("<QQ", table)
    rows = list(struct.iter_unpack("<QQ", table[HEAD:]))
    assert len(rows) == patches + displaced
    ascending = rows[:patches]
    assert [at for at, _ in ascending] == sorted({at for at, _ in ascending})
    assert floor(ascending, PATCH + 3) == CODE
    assert floor(ascending, PATCH + 30) == CODE + 4
    assert floor(ascending, PATCH + 32) == 0
    assert floor(ascending, BOUNCE) == CODE
    assert floor(ascending, BOUNCE + 1) == 0
    assert rows[patches:] == [(CODE + 4, PATCH + 24)]


def test_patches_not_in_force_displace_nothing() -> None:
    table = places_table([batch()], [])
    patches, displaced = struct.unpack_from("<QQ", table)
    assert displaced == 0
    assert table[HEAD:] == places_table([batch()], [batch()])[HEAD : HEAD + 16 * patches]


def test_without_patches_the_table_is_empty() -> None:
    assert not Places([])
    assert struct.unpack("<QQQ", places_table([], [])) == (0, 0, 0)


class Table:
    """Memory of a target with a table in it."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, address: int, size: int) -> bytes:
        return self._content[address - TABLE : address - TABLE + size]

    some = read

    def write(self, address: int, data: bytes) -> None:
        raise AssertionError("tables are only read")


def test_the_runtimes_table_shows_the_places_in_patches() -> None:
    table = places_table([batch()], [batch()])
    places, shown = Places([batch()]), ShownPlaces(Table(table), TABLE, len(table))
    for address in range(PATCH - 2, PATCH + 34):
        assert shown.in_patch(address) == places.in_patch(address), hex(address)
        assert shown.original(address) == places.original(address), hex(address)
        assert shown.begun(address) == places.begun(address), hex(address)


def test_a_table_that_a_target_has_spoilt_shows_anything_but_does_no_harm() -> None:
    table = places_table([batch()], [batch()])
    for count in (0, 1, 1 << 31, (1 << 64) - 1):
        shown = ShownPlaces(Table(count.to_bytes(8, "little") + table[8:]), TABLE, len(table))
        assert not shown.in_patch(PATCH + 3) or count == 1
    assert not ShownPlaces(Table(table[:40]), TABLE, len(table)).in_patch(PATCH + 3)
    chance = random.Random(1)
    for _ in range(200):
        content = table[:HEAD] + chance.randbytes(len(table) - HEAD)
        shown = ShownPlaces(Table(content), TABLE, len(table))
        for address in (0, PATCH, (1 << 63) - 1):
            shown.original(address), shown.begun(address), shown.in_patch(address)
