# SPDX-License-Identifier: LGPL-2.1-or-later
"""print(): the form is that of DTrace 2.0, as its test tst.print.local shows it."""

from __future__ import annotations

import struct

from gilk.lang.types import (
    CHAR,
    INT,
    UINT64,
    VOID,
    Array,
    Enumeration,
    Float,
    Integer,
    Member,
    Pointer,
    Record,
    String,
    Type,
)
from gilk.render.d.typed import printed

INNER = Record("struct", "(anon 1)", "", 16, 8, (Member("e", Pointer(VOID), 0), Member("f", UINT64, 8)))
EH = Enumeration("eh", (("FIRSTVAL", 0), ("SECONDVAL", 1)))
OUTER = Record(
    "struct", "outer", "", 48, 8,
    (
        Member("a", INT, 0), Member("b", Array(CHAR, 5), 4), Member("s", INNER, 16), Member("h", EH, 32),
        Member("low", INT, 36, 3, 0), Member("high", INT, 36, 5, 3), Member("", Record("union", "", "", 8, 8,
        (Member("n", INT, 0), Member("d", Float("double", 8), 0))), 40),
    ),
)  # fmt: skip
DATA = struct.pack("<i5s7xQQiB3xd", -1, b"te\0x\1", 0xFFFF9B7ACA7E0000, 7, 1, 0b11101_001, 2.5)


def lines(type_: Type, data: bytes, most: int = 1024) -> list[str]:
    first, *rest, last = printed(0x1234, type_, data, most, 8).decode().split("\n")
    assert (first, last) == ("0x1234 = *", "") and all(line.startswith(" " * 44) for line in rest)
    return [line[44:] for line in rest]


def test_a_struct_is_printed_with_types() -> None:
    assert lines(OUTER, DATA) == [
        "(struct outer) {",
        " .a = (int)-1,",
        " .b = (char [5]) [",
        "  (char)'t',",
        "  (char)'e',",
        " ],",
        " .s = (struct) {",
        "  .e = (void *)0xffff9b7aca7e0000,",
        "  .f = (unsigned long)7,",
        " },",
        " .h = (enum eh)SECONDVAL,",
        " .low = (int)1,",
        " .high = (int)-3,",
        " (union) {",
        "  .d = (double)2.5,",
        " },",
        "}",
    ]


def test_zero_members_are_left_out_except_in_arrays() -> None:
    assert lines(OUTER, bytes(48)) == ["(struct outer) {", "}"]
    assert lines(Array(INT, 3), struct.pack("<3i", 0, 5, 0)) == ["(int [3]) [", " (int)0,", " (int)5,", " (int)0,", "]"]
    assert lines(INT, bytes(4)) == ["(int)0"]


def test_printsize_truncates() -> None:
    found = lines(OUTER, DATA, 8)
    assert found[:2] == ["(struct outer) {", " .a = (int)-1,"] and found[-2:] == [" ...", "}"]
    assert lines(Array(INT, 100), bytes(400), 4) == ["(int [100]) [", " (int)0,", " ...", "]"]
    assert lines(OUTER, DATA, 32)[-4:] == ["  .f = (unsigned long)7,", " ...", " },", "}"], (
        "before the last struct ends"
    )
    assert lines(Array(CHAR, 9), b"text\0", 4)[-2:] == [" (char)'t',", "]"], "a string is whole, if its NUL is next"


def test_scalars_are_printed_with_types() -> None:
    assert lines(Integer("uint8_t", 1, False, 0), b"\xc8") == ["(uint8_t)200"]
    assert lines(CHAR, b"\x80") == ["(char)-128"]
    assert lines(EH, struct.pack("<i", 9)) == ["(enum eh)9"]
    assert lines(String(), b"text\0abc") == ['(string)"text"']
    assert lines(Pointer(Record("struct", "x")), struct.pack("<Q", 16)) == ["(struct x *)0x10"]
    assert lines(Array(Array(INT, 2), 1), struct.pack("<2i", 1, 2))[0] == "(int [1][2]) ["
