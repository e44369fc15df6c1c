# SPDX-License-Identifier: LGPL-2.1-or-later
"""Bytes in rows of sixteen."""

from __future__ import annotations

import pytest

from gilk.render.d.hexdump import as_text, hexdump
from gilk.render.d.trace import trace
from gilk.trace.d.values import Bytes

GOLDEN = b"""
             0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f  0123456789abcdef
         0: 34 12 00 00 00 00 00 00 76 98 00 00              4.......v...
"""


def test_a_structure_is_dumped_in_hexadecimal() -> None:
    data = bytes.fromhex("34120000 00000000 76980000")
    assert hexdump(data) == trace(Bytes(data)) == trace(Bytes(data), quiet=True) == GOLDEN


def test_rows_have_offsets() -> None:
    lines = hexdump(bytes(range(48, 81))).splitlines()
    assert lines[2] == b"         0: 30 31 32 33 34 35 36 37 38 39 3a 3b 3c 3d 3e 3f  0123456789:;<=>?"
    assert lines[3].startswith(b"        10: 40") and lines[4] == b"        20: 50" + b" " * 45 + b"  P"


def test_empty_data_print_nothing() -> None:
    assert hexdump(b"") == b""


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"ab\0\0", b"ab"), (b"a\tb\n", b"a\tb\n"), (b"ab\0c", None), (b"\0\0", None), (b"\xc3\xa9\0", None), (b"", None)],
)
def test_bytes_that_are_printed_as_text(data: bytes, text: bytes | None) -> None:
    assert as_text(data) == text
