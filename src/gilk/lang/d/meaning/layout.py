# SPDX-License-Identifier: LGPL-2.1-or-later
"""The layout of data, one after another, in the record of a clause, or in the key of an aggregation or a variable."""

from __future__ import annotations

from gilk.lang import ir
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.data import Datum, Kind
from gilk.lang.syntax.source import Rejected, Span
from gilk.lang.types import Array, Enumeration, Float, Integer, Pointer, Record, Special, String, Type, size_of, text

_SYMBOL_SIZE = {Special.SYM: 8, Special.MOD: 8}


class Layout:
    """A layout in progress. Each number is aligned to its size, other data to at most 8 bytes, because records and keys
    are filled by plain stores.
    """

    def __init__(self, strsize: int, start: int = 0) -> None:
        self._strsize = strsize
        self.size = start

    def add(self, value: ir.Expression, span: Span) -> Datum:
        """Add a value to the layout. Raises Rejected if it cannot be recorded."""
        kind, size, align = self._kind(value, span)
        offset = -(-self.size // align) * align
        self.size = offset + size
        signed = isinstance(value.type, Enumeration) or (isinstance(value.type, Integer) and value.type.signed)
        return Datum(kind, offset, size, signed, isinstance(value.type, Pointer))

    def _kind(self, value: ir.Expression, span: Span) -> tuple[Kind, int, int]:
        type_: Type = value.type
        match type_:
            case Integer() | Enumeration() | Pointer():
                size = size_of(type_, self._strsize)
                return Kind.INT, size, size
            case Float(size=4 | 8) if isinstance(value, ir.Field | ir.Place):
                return Kind.FLOAT, type_.size, type_.size
            case String():
                return Kind.STRING, self._strsize, 1
            case Record(complete=False):
                raise Rejected(Tag.D_OP_INCOMPLETE, span, f"{text(type_)} is incomplete")
            case Record() | Array():
                return Kind.BYTES, size_of(type_, self._strsize), 8
            case Special.USTACK | Special.STACK:
                return Kind(type_), 8 + 8 * frames(value), 8
            case Special():
                return Kind(type_), _SYMBOL_SIZE.get(type_, 16), 8
        raise Rejected(Tag.D_TRACE_VOID, span, f"a value of type {text(type_)} cannot be recorded")


def frames(value: ir.Expression) -> int:
    """The largest number of frames that a stack may have."""
    assert isinstance(value, ir.Call) and isinstance(value.arguments[0], ir.Constant)
    return value.arguments[0].value
