# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aggregations in print: at the end, and by printa() with and without a format, one of them or several side by side."""

from __future__ import annotations

from gilk.render.d import printf
from gilk.render.d.columns import left
from gilk.render.d.distribution import drawn
from gilk.render.d.hexdump import as_text, hexdump
from gilk.render.d.stacks import INDENT, block
from gilk.trace.d.events import Snapshot, SnapshotRow
from gilk.trace.d.values import Bytes, Distribution, Dump, Integer, Stack, Symbol, Text, Value

_COLUMNS = {1: 3, 2: 5, 4: 8, 8: 16}


def table(snapshot: Snapshot, indent: int = INDENT) -> bytes:
    """The text of a snapshot: by its format; or if it has none, a line for each row, below an empty line if printa()
    made it.
    """
    if snapshot.format is None:
        lines = b"".join(_line(row, indent) for row in snapshot.rows)
        return lines if snapshot.final else b"\n" + lines
    pieces, name = printf.pieces(snapshot.format), printf.named(snapshot.names)
    return b"".join(printf.render(pieces, row.keys, row.totals, name) for row in snapshot.rows)


def _line(row: SnapshotRow, indent: int) -> bytes:
    keys = b"".join(key(value, indent) for value in row.keys)
    totals = (_total(total, each) for total, each in zip(row.totals, row.processors, strict=True))
    return keys + b"".join(totals) + b"\n"


def _total(total: Value, processors: tuple[tuple[int, Value], ...]) -> bytes:
    return _number(total) + b"".join(b"\n    [CPU %d]" % cpu + _number(value) for cpu, value in processors)


def _number(value: Value) -> bytes:
    if isinstance(value, Distribution):
        return drawn(value)
    return b" %16d" % value.as_signed if isinstance(value, Integer) else b""


def key(value: Value, indent: int = INDENT) -> bytes:
    """A key without a format. Small integers are shown unsigned even if they are signed, as in DTrace."""
    match value:
        case Integer():
            number = value.as_unsigned if value.size < 4 else value.as_signed
            return b" " + (b"%d" % number).rjust(_COLUMNS.get(value.size, 0))
        case Text():
            return b"  " + left(value.data, 50)
        case Bytes():
            text = as_text(value.data)
            return hexdump(value.data) if text is None else b"  " + left(text, 50)
        case Dump():
            return hexdump(value.data)
        case Symbol():
            return b"  " + left(value.text, 50)
        case Stack():
            return block(value.lines, indent)
    return b""
