# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aggregations in print: at the end, and by printa() with and without a format, one of them or several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from gilk.lang.d.printf import Conversion, Literal
from gilk.render.d import printf
from gilk.render.d.contents import Contents, Row
from gilk.render.d.hexdump import as_text, hexdump
from gilk.render.d.sorting import BY_VALUE, Keys, Order, key_rank, ordered, weight
from gilk.render.d.stacks import INDENT, block
from gilk.render.d.values import Bytes, Integer, Rendered, Stack, Symbol, Text, Value, left
from gilk.values import dataclass

Pieces = Sequence[Literal | Conversion]
_COLUMNS = {1: 3, 2: 5, 4: 8, 8: 16}


def print_all(contents: Sequence[Contents], order: Order = BY_VALUE, indent: int = INDENT) -> bytes:
    """At the end: those that printa() has not printed."""
    return b"".join(_line(row, [(one, row)], indent) for one, row in ordered(contents, order))


def printa(
    contents: Sequence[Contents],
    pieces: Pieces | None = None,
    order: Order = BY_VALUE,
    indent: int = INDENT,
    name: printf.Name = printf.nameless,
) -> bytes:
    """``contents``: one aggregation, or several with the same keys, as the arguments were. ``name``: of addresses."""
    rows = _rows(contents, order)
    if pieces is None:
        return b"\n" + b"".join(_line(row, totals, indent) for row, totals in rows)
    return b"".join(
        printf.render(pieces, row.keys, [one.total(of.cells) for one, of in totals], name) for row, totals in rows
    )


Joined = tuple[Row, list[tuple[Contents, Row]]]  # a row with the keys, and the row of each aggregation


def _rows(contents: Sequence[Contents], order: Order) -> list[Joined]:
    if len(contents) == 1:
        return [(row, [(one, row)]) for one, row in ordered(contents, order)]
    return joined(contents, order)


@dataclass(slots=True)
class _Bundle:
    key: Row
    rows: dict[int, Row] = field(default_factory=dict)  # by number of the aggregation


def joined(contents: Sequence[Contents], order: Order = BY_VALUE) -> list[Joined]:
    """Rows with the same keys side by side; where an aggregation has none, zeroes."""
    bundles: dict[bytes, _Bundle] = {}
    for one in contents:
        for row in one.rows:
            bundles.setdefault(row.key, _Bundle(row)).rows[one.aggregation.number] = row
    found = [(bundle.key, [(one, _row_of(bundle, one)) for one in contents]) for bundle in bundles.values()]
    first = order.position if 0 <= order.position < len(contents) else 0

    def rank(pair: Joined) -> tuple[Keys, tuple[tuple[int, ...], ...], Keys]:
        key, totals = pair
        keys = key_rank(contents[0].aggregation, key.key, order.key_position)
        values = tuple(weight(one.aggregation.what, row.cells) for one, row in (*totals[first:], *totals[:first]))
        return (keys, values, ()) if order.by_key else ((), values, keys)

    return sorted(found, key=rank, reverse=order.reverse)


def _row_of(bundle: _Bundle, one: Contents) -> Row:
    zeroes = Row(bundle.key.key, bundle.key.keys, (0,) * one.aggregation.what.cells)
    return bundle.rows.get(one.aggregation.number, zeroes)


def _line(row: Row, totals: list[tuple[Contents, Row]], indent: int) -> bytes:
    keys = b"".join(key(value, indent) for value in row.keys)
    return keys + b"".join(_total(one, of) for one, of in totals) + b"\n"


def _total(one: Contents, row: Row) -> bytes:
    processors = (b"\n    [CPU %d]" % cpu + _number(one.total(cells)) for cpu, cells in row.processors)
    return _number(one.total(row.cells)) + b"".join(processors)


def _number(value: Value) -> bytes:
    if isinstance(value, Rendered):
        return value.data
    return b" %16d" % value.as_signed if isinstance(value, Integer) else b""


def key(value: Value, indent: int = INDENT) -> bytes:
    """A key without a format. Small integers are unsigned, whatever they were: so DTrace has it."""
    match value:
        case Integer():
            number = value.as_unsigned if value.size < 4 else value.as_signed
            return b" " + (b"%d" % number).rjust(_COLUMNS.get(value.size, 0))
        case Text():
            return b"  " + left(value.data, 50)
        case Bytes():
            text = as_text(value.data)
            return hexdump(value.data) if text is None else b"  " + left(text, 50)
        case Symbol():
            return b"  " + left(value.text, 50)
        case Stack():
            return block(value.lines, indent)
        case Rendered():
            return value.data
    return b""
