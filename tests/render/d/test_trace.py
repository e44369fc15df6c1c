# SPDX-License-Identifier: LGPL-2.1-or-later
"""Data without a format, and how values are taken out of records."""

from __future__ import annotations

import pytest

from gilk.lang.data import Aggregating, Datum, Function, Kind
from gilk.render.d.distribution import distribution
from gilk.render.d.hexdump import hexdump
from gilk.render.d.trace import trace
from gilk.trace.d.values import Bytes, Distribution, Dump, Floating, Integer, Stack, Symbol, Text, Value, decode, raw

BLOCK = b"\n              a`f\n              b`g\n"
EVENS = Aggregating(Function.LQUANTIZE, low=0, high=2, step=2)


@pytest.mark.parametrize(
    ("value", "loud", "quiet"),
    [
        (Integer(-1, 1), b"  -1", b"-1"),
        (Integer(255, 1, False), b" 255", b"255"),
        (Integer(-1, 2), b"    -1", b"-1"),
        (Integer(-1, 2, False), b" 65535", b"65535"),
        (Integer(7, 4), b"          7", b"7"),
        (Integer(-1, 4, False), b" 4294967295", b"4294967295"),
        (Integer(-5, 8), b"                  -5", b"-5"),
        (Integer(-1, 8, False), b" 18446744073709551615", b"18446744073709551615"),
        (Text(b"hello"), b"  hello                            ", b"hello"),
        (Text(b"x" * 40), b"  " + b"x" * 40, b"x" * 40),
        (Symbol(b"libc`f"), b"  libc`f" + b" " * 44, b"  libc`f" + b" " * 44),
        (Stack((b"a`f", b"b`g")), BLOCK, BLOCK),
        (Dump(b"x"), hexdump(b"x"), hexdump(b"x")),
        (Distribution(EVENS, (0, 1, 0)), distribution(EVENS, (0, 1, 0)), distribution(EVENS, (0, 1, 0))),
        (Floating(1.5), b"1.500000", b"1.500000"),
    ],
)  # fmt: skip
def test_traced_values_are_printed_in_columns(value: Value, loud: bytes, quiet: bytes) -> None:
    assert trace(value) == loud
    assert trace(value, quiet=True) == quiet


def test_stackindent_indents_stacks() -> None:
    assert trace(Stack((b"f",)), indent=2) == b"\n  f\n"


def names(kind: Kind, pid: int, addresses: tuple[int, ...]) -> tuple[bytes, ...]:
    return tuple(b"%s %d %x" % (kind.value.encode(), pid, address) for address in addresses)


def words(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "little") for number in numbers)


@pytest.mark.parametrize(
    ("datum", "data", "value"),
    [
        (Datum(Kind.INT, 1, 2, signed=True), b"\0\xfe\xff\0", Integer(0xFFFE, 2, True)),
        (Datum(Kind.STRING, 0, 4), b"ab\0x", Text(b"ab")),
        (Datum(Kind.STRING, 0, 2), b"abx", Text(b"ab")),
        (Datum(Kind.BYTES, 1, 2), b"abc", Bytes(b"bc")),
        (Datum(Kind.USTACK, 0, 32), words(7, 0x10, 0x20, 0), Stack((b"ustack 7 10", b"ustack 7 20"))),
        (Datum(Kind.STACK, 0, 16), words(0, 0x10), Stack((b"stack 0 10",))),
        (Datum(Kind.UMOD, 0, 16), words(7, 0x10), Symbol(b"umod 7 10")),
        (Datum(Kind.SYM, 0, 8), words(0x10), Symbol(b"sym 0 10")),
    ],
)
def test_values_are_decoded_from_records(datum: Datum, data: bytes, value: Value) -> None:
    assert decode(datum, data, names) == value
    assert raw(datum, data) == Dump(data[datum.offset : datum.offset + datum.size])


def test_integers_wrap_around() -> None:
    assert Integer(200, 1).as_signed == Integer(200, 1).as_typed == -56
    assert Integer(-1, 8, False).as_typed == 2**64 - 1
