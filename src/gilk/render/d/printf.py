# SPDX-License-Identifier: LGPL-2.1-or-later
"""printf(): formats values. The compiler has checked which conversion fits which value."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain, repeat

from gilk.lang.d.printf import Conversion, Flags, LiteralText, Rule, Shows, parse_format
from gilk.render.d import numbers
from gilk.render.d.distribution import drawn
from gilk.render.d.numbers import NumberFormat
from gilk.render.d.stacks import block
from gilk.trace.d.events import Printed
from gilk.trace.d.values import Bytes, Distribution, Floating, Integer, Stack, Symbol, Text, Value, c_string, encoded

_ESCAPES = dict(zip(b'\0\a\b\f\n\r\t\v"\\', b'0abfnrtv"\\', strict=True))
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NANOSECONDS = 1_000_000_000
WIDEST = 16384  # in columns; the traced process may choose a width, and must not fill the memory with it
WRITTEN = 1 << 24  # columns of a width that the program itself has in its text


#: Returns the name of an address.
Name = Callable[[int], bytes]


def nameless(address: int) -> bytes:
    """The text for an address without a name."""
    return b"0x%x" % address


def formatted(printed: Printed) -> bytes:
    """The text of a printed value with a format; b'' if it has no format."""
    return render(pieces(printed.format or ""), printed.values, name=named(printed.names))


def named(names: Sequence[tuple[int, bytes]]) -> Name:
    if not names:
        return nameless
    known = dict(names)
    return lambda address: known.get(address) or nameless(address)


@cache
def pieces(text: str) -> tuple[LiteralText | Conversion, ...]:
    return parse_format(text)


def render(
    pieces: Sequence[LiteralText | Conversion],
    values: Sequence[Value],
    aggregates: Sequence[Value] = (),
    name: Name = nameless,
) -> bytes:
    """The text of the pieces of a format. ``values`` are taken from left to right. Conversions with ``@`` take
    ``aggregates``, the last of which is repeated. ``name`` is for ``%a`` and ``%A``.
    """
    given = iter(values)
    totals = chain(aggregates, repeat(aggregates[-1])) if aggregates else iter(())
    return b"".join(
        encoded(piece.text) if isinstance(piece, LiteralText) else _converted(piece, given, totals, name)
        for piece in pieces
    )


def _converted(one: Conversion, given: Iterator[Value], totals: Iterator[Value], name: Name) -> bytes:
    width, precision = one.width, one.precision
    if one.dynamic_width:
        width = max(-WIDEST, min(_dynamic(next(given)), WIDEST))
    if one.dynamic_precision:
        precision = min(_dynamic(next(given)), WIDEST)
    value = next(totals if one.aggregation else given)
    if isinstance(value, Distribution):
        return drawn(value)  # with any conversion
    width, precision = max(-WRITTEN, min(width, WRITTEN)), min(precision, WRITTEN)
    shape = NumberFormat(one.flags, width, precision if precision > 0 else None)
    if one.rule.shows is Shows.ADDRESS and isinstance(value, Integer):
        value = Symbol(name(value.as_unsigned))
    if isinstance(value, Stack):
        return _stack(value, shape, one.dynamic_width)
    return _SHOW[one.rule.shows](one.rule, shape, value)


def _dynamic(value: Value) -> int:
    """The value as C's int, whatever its own type is."""
    return Integer(value.as_typed, 4).as_signed if isinstance(value, Integer) else 0


def _stack(value: Stack, shape: NumberFormat, dynamic: bool) -> bytes:
    """The lines of a stack, at the left margin; ``%-20k`` and a negative ``*`` indent every line by that width. A width
    without ``-`` pads each line.
    """
    indent = -shape.width if dynamic and shape.width < 0 else shape.width if Flags.LEFT in shape.flags else 0
    if Flags.LEFT in shape.flags:
        shape = NumberFormat(shape.flags, 0, shape.precision)
    return block(tuple(numbers.string(shape, line) for line in value.lines), indent)


def _signed(rule: Rule, shape: NumberFormat, value: Value) -> bytes:
    return numbers.integer(shape, rule.letter, _integer(value).as_signed)


def _unsigned(rule: Rule, shape: NumberFormat, value: Value) -> bytes:
    return numbers.integer(shape, rule.letter, _integer(value).as_unsigned)


def _either(rule: Rule, shape: NumberFormat, value: Value) -> bytes:
    one = _integer(value)
    return numbers.integer(shape, rule.letter if one.signed else "u", one.as_typed)


def _integer(value: Value) -> Integer:
    return value if isinstance(value, Integer) else Integer(0)


def _character(_: Rule, shape: NumberFormat, value: Value) -> bytes:
    return shape.pad(bytes([_integer(value).value & 0xFF]))


def _wide_character(_: Rule, shape: NumberFormat, value: Value) -> bytes:
    return shape.pad(_code_point(_integer(value).as_unsigned))


def _floating(rule: Rule, shape: NumberFormat, value: Value) -> bytes:
    return numbers.floating(shape, rule.letter, value.value if isinstance(value, Floating) else 0.0)


def _text(_: Rule, shape: NumberFormat, value: Value) -> bytes:
    return numbers.string(shape, _as_text(value))


def _as_text(value: Value) -> bytes:
    match value:
        case Text():
            return value.data
        case Bytes():
            return c_string(value.data)
        case Symbol():
            return value.text
    return b""


def _wide_text(_: Rule, shape: NumberFormat, value: Value) -> bytes:
    data = value.data if isinstance(value, Bytes) else b""
    points = [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data) // 4 * 4, 4)]
    ended = points[: points.index(0)] if 0 in points else points
    return numbers.string(shape, b"".join(map(_code_point, ended)))


def _code_point(number: int) -> bytes:
    return chr(number).encode(errors="replace") if number < 0x110000 else b"?"


def _escaped(_: Rule, shape: NumberFormat, value: Value) -> bytes:
    return numbers.string(shape, escaped(value))


def escaped(value: Value) -> bytes:
    """The bytes with C's escapes, others in octal. The NUL that ends a string is shown too, as in DTrace."""
    match value:
        case Integer():
            return _escape(value.value & 0xFF)
        case Text():
            data = value.data + b"\0"
        case Bytes():
            text, nul, _ = value.data.partition(b"\0")
            data = text + nul
        case _:
            return b""
    return b"".join(map(_escape, data))


def _escape(byte: int) -> bytes:
    if byte in _ESCAPES:
        return bytes([ord("\\"), _ESCAPES[byte]])
    return bytes([byte]) if ord(" ") <= byte <= ord("~") else b"\\%03o" % byte


def _time(_: Rule, shape: NumberFormat, value: Value) -> bytes:
    when = time.localtime(_integer(value).as_unsigned // _NANOSECONDS)
    clock = f"{when.tm_hour:02}:{when.tm_min:02}:{when.tm_sec:02}"
    text = f"{when.tm_year} {_MONTHS[when.tm_mon - 1]} {when.tm_mday:2} {clock}"
    return numbers.string(shape, text.encode())


def _mail_time(_: Rule, shape: NumberFormat, value: Value) -> bytes:
    """The date and time of a mail header. The year is that of the ISO week, as in DTrace."""
    when = time.localtime(_integer(value).as_unsigned // _NANOSECONDS)
    date = f"{_DAYS[when.tm_wday]}, {when.tm_mday:02} {_MONTHS[when.tm_mon - 1]} {time.strftime('%G', when)}"
    clock = f"{when.tm_hour:02}:{when.tm_min:02}:{when.tm_sec:02} {when.tm_zone}"
    return numbers.string(shape, f"{date} {clock}".encode())


_SHOW: dict[Shows, Callable[[Rule, NumberFormat, Value], bytes]] = {
    Shows.SIGNED: _signed,
    Shows.UNSIGNED: _unsigned,
    Shows.EITHER: _either,
    Shows.CHARACTER: _character,
    Shows.WIDE_CHARACTER: _wide_character,
    Shows.FLOAT: _floating,
    Shows.ADDRESS: _text,
    Shows.TEXT: _text,
    Shows.WIDE_TEXT: _wide_text,
    Shows.ESCAPED: _escaped,
    Shows.STACK: _text,
    Shows.TIME: _time,
    Shows.MAIL_TIME: _mail_time,
}
