# SPDX-License-Identifier: LGPL-2.1-or-later
"""The places of threads: original addresses, the corresponding places in patches, and the table that the runtime
searches."""

from __future__ import annotations

import struct

from gilk.splice.plan import Equivalence, FunctionPlan, Patch, Site, Splice
from gilk.targets.batch import Batch, pack
from gilk.targets.places import Places, places_table

CODE, PATCH, BOUNCE = 0x1000, 0x900000, 0x1050


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
    rows = list(struct.iter_unpack("<QQ", table[16:]))
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
    assert table[16:] == places_table([batch()], [batch()])[16 : 16 + 16 * patches]


def test_without_patches_the_table_is_empty() -> None:
    assert not Places([])
    assert struct.unpack("<QQ", places_table([], [])) == (0, 0)
