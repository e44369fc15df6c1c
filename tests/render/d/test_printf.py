# SPDX-License-Identifier: LGPL-2.1-or-later
"""printf() prints what the C library's does, and D's own conversions as DTrace does."""

from __future__ import annotations

import ctypes
import subprocess
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gilk.lang.d.printf import parse_format
from gilk.lang.data import Aggregating, Function
from gilk.render.d.distribution import distribution
from gilk.render.d.printf import WIDEST, WRITTEN, render
from gilk.trace.d.values import Bytes, Distribution, Floating, Integer, Stack, Symbol, Text, Value

EVENS = Aggregating(Function.LQUANTIZE, low=0, high=2, step=2)
_SNPRINTF = ctypes.CDLL(None).snprintf


def d(text: str, *values: Value) -> bytes:
    return render(parse_format(text), values)


def c(text: str, *values: object) -> bytes:
    """The C library's result."""
    buffer = ctypes.create_string_buffer(4096)
    _SNPRINTF(buffer, ctypes.c_size_t(len(buffer)), text.encode(), *values)
    return buffer.value


FLAGS = st.lists(st.sampled_from("#0-+ "), unique=True).map("".join)
WIDTH = st.one_of(st.just(0), st.integers(1, 40))
PRECISION = st.one_of(st.none(), st.integers(1, 30))
SIZES = {1: ctypes.c_int8, 2: ctypes.c_int16, 4: ctypes.c_int32, 8: ctypes.c_int64}
WIDE = st.one_of(st.integers(-(1 << 63), (1 << 64) - 1), st.sampled_from([0, 1, -1, 255, 1 << 31, -(1 << 63)]))


def shape(flags: str, width: int, precision: int | None) -> str:
    return f"{flags}{width or ''}" + ("" if precision is None else f".{precision}")


def for_c(flags: str) -> str:
    """The flags for C: of 0 and -, D obeys the later one, C always -."""
    return flags.replace("-", "") if flags.rfind("0") > flags.rfind("-") else flags.replace("0", "")


@given(FLAGS, WIDTH, PRECISION, st.sampled_from("diuxXop"), st.sampled_from([1, 2, 4, 8]), st.booleans(), WIDE)
def test_integers_are_printed_like_c(
    flags: str, width: int, precision: int | None, letter: str, size: int, signed: bool, value: int
) -> None:
    made = Integer(value, size, signed)
    as_c = {"p": "x"}.get(letter, letter)
    as_c = "u" if as_c in "di" and not signed else as_c
    number = made.as_signed if as_c in "di" else made.as_unsigned
    expected = c(f"%{shape(for_c(flags), width, precision)}ll{as_c}", ctypes.c_longlong(number))
    assert d(f"%{shape(flags, width, precision)}{letter}", made) == expected


@given(FLAGS, st.integers(-30, 30), st.integers(1, 20), st.sampled_from("dxs"), st.integers(-9999, 9999))
def test_width_and_precision_from_arguments(flags: str, width: int, precision: int, letter: str, value: int) -> None:
    given_: Value = Text(b"%d" % value) if letter == "s" else Integer(value)
    argument = ctypes.c_char_p(b"%d" % value) if letter == "s" else ctypes.c_longlong(value)
    expected = c(f"%{for_c(flags)}*.*{'s' if letter == 's' else f'll{letter}'}", width, precision, argument)
    assert d(f"%{flags}*.*{letter}", Integer(width, 4), Integer(precision, 2), given_) == expected


@given(FLAGS, WIDTH, PRECISION, st.sampled_from("eEfgG"), st.floats())
def test_floats_are_printed_like_c(flags: str, width: int, precision: int | None, letter: str, value: float) -> None:
    expected = c(f"%{shape(for_c(flags), width, precision)}{letter}", ctypes.c_double(value))
    assert d(f"%{shape(flags, width, precision)}{letter}", Floating(value)) == expected


@given(FLAGS, WIDTH, PRECISION, st.binary(max_size=50).filter(lambda data: b"\0" not in data))
def test_strings_are_printed_like_c(flags: str, width: int, precision: int | None, data: bytes) -> None:
    expected = c(f"%{shape(for_c(flags), width, precision)}s", ctypes.c_char_p(data))
    assert d(f"%{shape(flags, width, precision)}s", Text(data)) == expected
    assert d(f"%{shape(flags, width, precision)}s", Bytes(data + b"\0junk")) == expected


@given(FLAGS, WIDTH, st.integers(1, 255), st.sampled_from([1, 2, 4]))
def test_characters_are_printed_like_c(flags: str, width: int, value: int, size: int) -> None:
    expected = c(f"%{shape(for_c(flags), width, None)}c", value)
    assert d(f"%{shape(flags, width, None)}c", Integer(value, size)) == expected


def test_a_precision_of_zero_is_ignored() -> None:
    assert d("%.0s %.0d %.*d", Text(b"ab"), Integer(0), Integer(-3, 4), Integer(7)) == b"ab 0 7"


@pytest.mark.parametrize(
    ("format_", "value", "expected"),
    [
        ("%d", Integer(0x1234567890ABCDEF, 1), b"-17"),
        ("%d", Integer(0x1234567890ABCDEF, 1, False), b"239"),
        ("%x", Integer(-1, 1), b"ff"),
        ("%u", Integer(-1, 8), b"18446744073709551615"),
        ("%hd", Integer(40000, 2), b"-25536"),
        ("%p", Integer(0x61), b"61"),
        ("%?p", Integer(0x61), b"              61"),
        ("%0?x", Integer(0x61), b"0000000000000061"),
        ("%#8x", Integer(0x123), b"   0x123"),
        ("%S", Text(b'tab\t"q"\\\x1b\xff'), b'tab\\t\\"q\\"\\\\\\033\\377\\0'),
        ("%S", Bytes(b"ab\nc"), b"ab\\nc"),
        ("%C|", Integer(10, 4), b"\\n|"),
        ("%C", Integer(ord("a"), 4), b"a"),
        ("%a", Symbol(b"vmlinux`max_pfn"), b"vmlinux`max_pfn"),
        ("%-20A|", Symbol(b"libc.so.6`read"), b"libc.so.6`read      |"),
        ("%a", Integer(0xFFFF), b"0xffff"),
        ("%lc", Integer(0x20AC, 4), "€".encode()),
        ("%ls|", Bytes("aé".encode("utf-32-le") + bytes(8)), "aé|".encode()),
        ("%d", Distribution(EVENS, (0, 1, 0)), distribution(EVENS, (0, 1, 0))),
    ],
)
def test_conversions_of_d(format_: str, value: Value, expected: bytes) -> None:
    assert d(format_, value) == expected


FRAMES = Stack((b"a.out`f+0x1", b"a.out`main"))


@pytest.mark.parametrize(
    ("format_", "values", "expected"),
    [
        ("%k", [FRAMES], b"\na.out`f+0x1\na.out`main\n"),
        ("%-4k", [FRAMES], b"\n    a.out`f+0x1\n    a.out`main\n"),
        ("%12k", [FRAMES], b"\n a.out`f+0x1\n  a.out`main\n"),
        ("%*k", [Integer(-2, 4), FRAMES], b"\n  a.out`f+0x1\n  a.out`main\n"),
        ("%k", [Stack(())], b"\n"),
    ],
)
def test_conversions_of_stacks(format_: str, values: list[Value], expected: bytes) -> None:
    assert d(format_, *values) == expected


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "EST5")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("new_york")
def test_conversions_of_times() -> None:
    when = Integer(1795338306_000_000_999)
    assert d("%Y", when) == b"2026 Nov 22 04:05:06"
    assert d("%T", when) == b"Sun, 22 Nov 2026 04:05:06 EST"
    assert d("%24Y|", Integer(10**9 * 86400 * 3)) == b"    1970 Jan  3 19:00:00|"
    assert d("%T", Integer(0)) == b"Wed, 31 Dec 1970 19:00:00 EST"  # the year of that week, as DTrace has it


def test_literal_text_keeps_bytes_that_are_no_utf_8() -> None:
    assert d(b"\xff%%\xc3\xa9".decode(errors="surrogateescape")) == b"\xff%\xc3\xa9"


def test_conversions_with_at_take_the_aggregations_in_turn_and_repeat_the_last() -> None:
    pieces = parse_format("%s %@d %@x %@d %d")
    assert render(pieces, [Text(b"k"), Integer(9)], [Integer(-1), Integer(255)]) == b"k -1 ff 255 9"


@pytest.mark.parametrize("width", [1 << 31, WIDEST + 1, (1 << 31) - 1])
def test_widths_are_limited(width: int) -> None:
    """A width that a traced process can influence does not fill the memory."""
    asked = Integer(min(width, (1 << 31) - 1), 4)
    assert d("%*d", asked, Integer(1)) == b" " * (WIDEST - 1) + b"1"
    assert d("%-*d", asked, Integer(1)) == b"1" + b" " * (WIDEST - 1)
    assert d("%.*d", asked, Integer(1)) == b"1".rjust(WIDEST, b"0")
    assert len(d("%.*f", asked, Floating(1.5))) == WIDEST + 2


def test_widths_that_the_program_writes_are_those_of_c() -> None:
    """The output is what printf(3) makes of the same format."""
    for width in (16_383, 16_385, 100_000):
        for format_ in (f"%{width}d|", f"%-{width}d|", f"%.{width}d|", f"%{width}.{width}d|"):
            assert d(format_, Integer(-7)) == subprocess.check_output(["printf", format_, "-7"])
    assert len(d("%999999999d", Integer(1))) == WRITTEN


def test_addresses_have_names() -> None:
    pieces = parse_format("%a|%A|%12a|%a")
    values = [Integer(16), Integer(-1), Integer(17), Symbol(b"known")]
    shown = render(pieces, values, name=lambda address: b"<%x>" % address)
    assert shown == b"<10>|<ffffffffffffffff>|        <11>|known"
