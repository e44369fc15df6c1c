# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shows rows of tables of woven aspects: their keys as values of the key's types, and the folded values."""

from __future__ import annotations

from gilk.lang.aspect.checked import CheckedTable, CheckedType
from gilk.lang.aspect.woven import TableRow
from gilk.lang.data import Aggregating, Function
from gilk.lang.types import Integer, align_of, size_of
from gilk.render.d.distribution import drawn, rows
from gilk.render.text import cell
from gilk.trace.d.contents import stddev
from gilk.trace.d.values import Distribution

#: A part of a key: a number, a text, or bytes of what only the program knows the type of.
KeyPart = int | str | bytes
_QUANTIZE = Aggregating(Function.QUANTIZE)


def key_of(table: CheckedTable, row: TableRow) -> tuple[KeyPart, ...]:
    """The parts of a key as values of their types. From a part on whose type only the program knows, the rest of the
    key is bytes, without trailing zeros."""
    parts, at = list[KeyPart](), 0
    for type_ in table.key:
        known = type_.type
        size = size_of(known, 0) if known is not None else 0
        if known is None or not size:
            return (*parts, row.key[at:].rstrip(b"\0"))
        at = -(-at // align_of(known)) * align_of(known)
        parts.append(_part(type_, row.key[at : at + size]))
        at += size
    return tuple(parts)


def _part(type_: CheckedType, content: bytes) -> KeyPart:
    if isinstance(type_.type, Integer):
        return int.from_bytes(content, "little", signed=type_.type.signed)
    if type_.text.startswith("char") and "[" in type_.text:
        return content.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")
    return content


def key_text(table: CheckedTable, row: TableRow) -> str:
    """The parts of a key as text, separated by commas; bytes in hexadecimal."""
    return ", ".join(_text(part) for part in key_of(table, row))


def _text(part: KeyPart) -> str:
    return part.hex() or "0" if isinstance(part, bytes) else str(part)


def value_of(table: CheckedTable, row: TableRow) -> int | float | list[dict[str, str | int]]:
    """The value of a row. For quantize, a list of its buckets as in `gilk dtrace --json`: ``bucket``, ``value``,
    ``count``."""
    match table.fold:
        case "avg":
            return row.sum / max(row.count, 1)
        case "stddev":
            return stddev((row.count, row.sum, row.squares, row.squares >> 64))
        case "quantize":
            return rows(_distribution(row))
    return {"count": row.count, "sum": row.sum, "min": row.least, "max": row.most}[table.fold]


def row_text(table: CheckedTable, row: TableRow) -> str:
    """A row as a line of text; for quantize, with the picture of its buckets below."""
    if table.fold == "quantize":
        return f"  {cell(key_text(table, row))}{drawn(_distribution(row)).decode()}"
    return f"  {cell(key_text(table, row)):<40} {value_of(table, row)}"


def _distribution(row: TableRow) -> Distribution:
    return Distribution(_QUANTIZE, row.buckets)
