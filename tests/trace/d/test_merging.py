# SPDX-License-Identifier: LGPL-2.1-or-later
"""Rows whose names print alike are one row."""

from __future__ import annotations

import struct

import pytest

from gilk.lang.data import Aggregating, Aggregation, Datum, Function, Kind
from gilk.trace.d.merging import merged

#: By process and address: the function that has it, and where that begins.
FUNCTIONS = {
    (1, 0x1008): ("libc.so.6`read", 0x1000),
    (1, 0x1010): ("libc.so.6`read", 0x1000),
    (2, 0x7008): ("libc.so.6`read", 0x7000),
    (2, 0x9000): ("0x9000", 0x9000),
    (0, 0x1008): ("vmlinux`vfs_read", 0x1000),
    (0, 0x1010): ("vmlinux`vfs_read", 0x1000),
}


def stands(_kind: Kind, pid: int, address: int) -> tuple[int, bytes]:
    name, start = FUNCTIONS[pid, address]
    return start, name.encode()


@pytest.mark.parametrize("kind", [Kind.USYM, Kind.UMOD])
def test_functions_of_the_same_name_are_one_row_also_in_several_processes(kind: Kind) -> None:
    counts = Aggregation(0, "@", Aggregating(Function.COUNT), (Datum(kind, 0, 16),), 16)
    rows = {struct.pack("<QQ", *place): (1,) for place in FUNCTIONS if place[0]}
    found = merged(counts, rows, stands)
    assert {struct.unpack("<QQ", key): row.cells for key, row in found.items()} == {
        (1, 0x1000): (3,),
        (2, 0x9000): (1,),
    }
    assert sorted(key for row in found.values() for key in row.keys) == sorted(rows)


@pytest.mark.parametrize("kind", [Kind.SYM, Kind.MOD])
def test_addresses_in_one_function_of_the_kernel_are_one_row(kind: Kind) -> None:
    counts = Aggregation(0, "@", Aggregating(Function.SUM), (Datum(Kind.INT, 0, 8), Datum(kind, 8, 8)), 16)
    rows = {struct.pack("<QQ", number, at): (5,) for number, at in ((3, 0x1008), (3, 0x1010), (4, 0x1010))}
    found = merged(counts, rows, stands)
    assert {struct.unpack("<QQ", key): row.cells for key, row in found.items()} == {
        (3, 0x1000): (10,),
        (4, 0x1000): (5,),
    }
