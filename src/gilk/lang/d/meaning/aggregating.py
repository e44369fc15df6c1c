# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aggregations ``@name[keys] = function(...)``: the function with its parameters, which are checked, the keys and the
value.
"""

from __future__ import annotations

from itertools import zip_longest

from gilk.lang import ir
from gilk.lang.d.meaning import constants, operands, quantizing, typed
from gilk.lang.d.meaning.layout import Layout
from gilk.lang.d.meaning.scope import Scope
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.data import Aggregating, Datum, Function, Kind
from gilk.lang.syntax.source import Rejected
from gilk.lang.types import INT, INT64, VOID, Integer, Pointer, Special, String, Type, is_scalar

_PROCESSOR = ir.Call(INT, "cpu")


class Aggregations:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def statement(self, given: typed.AggregateCall) -> ir.Aggregate:
        """The statement for an aggregation. Raises Rejected."""
        keys, layout, processor = self._keys(given)
        how, used = self._what(Function(given.call.name), given)
        values = [self._operand(given, n) for n in range(1, len(given.arguments) + 1) if n in (1, *used)]
        data = tuple(datum for datum, _ in keys)
        name = given.target.name
        known = self._scope.aggregations.get(name)
        if known is not None and known.what.function is how.function and known.what != how:
            quantizing.check_alike(given, known.what, how)
        aggregation = self._scope.aggregation(name, how, data, layout.size, processor)
        value, weight = (*values, None, None)[:2]
        hidden = () if processor is None else (_PROCESSOR,)
        return ir.Aggregate(aggregation, (*hidden, *(key for _, key in keys)), value, weight)

    def _operand(self, given: typed.AggregateCall, number: int) -> ir.Expression:
        value, call = given.arguments[number - 1], given.call
        if is_scalar(value.type):
            return constants.uncut(INT64, value)
        span = call.arguments[number - 1].span
        if number > 1:
            what = f"{call.name}( ) increment value (argument #{number}) must be of scalar type"
            raise Rejected(Tag.D_PROTO_ARG, span, what)
        raise Rejected(Tag.D_AGG_SCALAR, span, f"{call.name}( ) argument #1 must be of scalar type")

    def _keys(self, given: typed.AggregateCall) -> tuple[list[tuple[Datum, ir.Expression]], Layout, Datum | None]:
        """The keys with their data, their layout, and the datum of the processor, which comes before them, or None."""
        target, layout = given.target, Layout(self._scope.strsize)
        processor = layout.add(_PROCESSOR, target.span) if self._scope.by_processor else None
        known = self._scope.aggregations.get(target.name)
        before = known.keys if known is not None else ()
        keys = []
        for key, value, first in zip_longest(target.keys or (), given.keys, before[: len(given.keys)]):
            if first is not None and first.kind is Kind.INT and is_scalar(value.type):
                value = constants.convert(_integer(first), value)
            if not is_scalar(value.type) and not isinstance(value.type, String | Special):
                value = operands.as_string(value, key.span)
            keys.append((layout.add(value, key.span), value))
        return keys, layout, processor

    def _what(self, function: Function, given: typed.AggregateCall) -> tuple[Aggregating, tuple[int, ...]]:
        """The function with its parameters, and which arguments besides the first are values, that is weights."""
        match function:
            case Function.QUANTIZE:
                return Aggregating(function), (2,)
            case Function.LQUANTIZE:
                return quantizing.linear(given), (5,)
            case Function.LLQUANTIZE:
                return quantizing.logarithmic(given), (6,)
        return Aggregating(function), ()


def _integer(key: Datum) -> Type:
    """The type to which later keys at the place of ``key`` are converted."""
    return Pointer(VOID) if key.pointer else Integer(f"{8 * key.size}-bit integer", key.size, key.signed, 0)
