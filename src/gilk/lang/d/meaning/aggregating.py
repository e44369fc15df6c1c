# SPDX-License-Identifier: LGPL-2.1-or-later
"""``@name[keys] = function(...)``: what it counts, and whether its parameters make sense."""

from __future__ import annotations

from itertools import zip_longest

from gilk.lang import ir
from gilk.lang.d.meaning import constants, operands, typed
from gilk.lang.d.meaning.layout import Layout
from gilk.lang.d.meaning.scope import Scope
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.data import Aggregating, Datum, Function, Kind
from gilk.lang.syntax.source import Rejected
from gilk.lang.types import INT, INT64, VOID, Integer, Pointer, Special, String, Type, is_arithmetic, is_scalar

_MOST_CELLS = 1 << 16
_HIGHEST = 1 << 31
_PROCESSOR = ir.Call(INT, "cpu")


class Aggregations:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def statement(self, given: typed.Aggregating) -> ir.Aggregate:
        """Raises Rejected."""
        keys, layout, processor = self._keys(given)
        how, used = self._what(Function(given.call.name), given)
        values = [self._operand(given, n) for n in range(1, len(given.arguments) + 1) if n in (1, *used)]
        data = tuple(datum for datum, _ in keys)
        name, span = given.target.name, given.assign.span
        aggregation = self._scope.aggregation(span, name, how, data, layout.size, processor)
        value, weight = (*values, None, None)[:2]
        hidden = () if processor is None else (_PROCESSOR,)
        return ir.Aggregate(aggregation, (*hidden, *(key for _, key in keys)), value, weight)

    def _operand(self, given: typed.Aggregating, number: int) -> ir.Expression:
        value, call = given.arguments[number - 1], given.call
        if not is_scalar(value.type):
            what = f"{call.name}( ) argument #{number} must be of scalar type"
            raise Rejected(Tag.D_AGG_SCALAR, call.arguments[number - 1].span, what)
        return constants.convert(INT64, value)

    def _keys(self, given: typed.Aggregating) -> tuple[list[tuple[Datum, ir.Expression]], Layout, Datum | None]:
        """With that of the processor, which comes before them."""
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

    def _what(self, function: Function, given: typed.Aggregating) -> tuple[Aggregating, tuple[int, ...]]:
        """And which arguments, besides the first, are values: weights."""
        match function:
            case Function.QUANTIZE:
                return Aggregating(function), (2,)
            case Function.LQUANTIZE:
                return self._linear(given), (5,)
            case Function.LLQUANTIZE:
                return self._logarithmic(given), (6,)
        return Aggregating(function), ()

    def _constant(self, given: typed.Aggregating, number: int, tag: Tag) -> int:
        call, value = given.call, given.arguments[number - 1]
        if not isinstance(value, ir.Constant) or not is_arithmetic(value.type):
            raise Rejected(tag, call.span, f"{call.name}( ) argument #{number} must be an integer constant")
        return value.value

    def _linear(self, given: typed.Aggregating) -> Aggregating:
        call = given.call
        low = self._constant(given, 2, Tag.D_LQUANT_BASETYPE)
        high = self._constant(given, 3, Tag.D_LQUANT_LIMTYPE)
        step = self._constant(given, 4, Tag.D_LQUANT_STEPTYPE) if len(given.arguments) > 3 else 1
        if low >= high:
            raise Rejected(
                Tag.D_LQUANT_MISMATCH,
                call.span,
                "lquantize( ) base (argument #2) must be less than limit (argument #3)",
            )
        if step <= 0:
            raise Rejected(
                Tag.D_LQUANT_STEPVAL, call.span, "lquantize( ) step (argument #4) must be a non-zero positive integer"
            )
        if (high - low) // step == 0:
            raise Rejected(Tag.D_LQUANT_STEPLARGE, call.span, "lquantize( ) step (argument #4) too large: no buckets")
        if (high - low) // step > _MOST_CELLS:
            raise Rejected(Tag.D_LQUANT_STEPVAL, call.span, f"lquantize( ) has more than {_MOST_CELLS} buckets")
        return Aggregating(Function.LQUANTIZE, low, high, step)

    def _logarithmic(self, given: typed.Aggregating) -> Aggregating:
        call = given.call
        factor = self._constant(given, 2, Tag.D_LLQUANT_FACTORTYPE)
        low = self._constant(given, 3, Tag.D_LLQUANT_LOWTYPE)
        high = self._constant(given, 4, Tag.D_LLQUANT_HIGHTYPE)
        steps = self._constant(given, 5, Tag.D_LLQUANT_NSTEPTYPE)
        if factor < 2:
            raise Rejected(
                Tag.D_LLQUANT_FACTORSMALL, call.span, "llquantize( ) factor (argument #2) must be two or more"
            )
        if not 0 <= low < high or high > 63 or factor ** (high + 1) >= 1 << 63:
            raise Rejected(
                Tag.D_LLQUANT_MAGRANGE, call.span,
                "llquantize( ) magnitudes (arguments #3 and #4) must ascend from 0, and fit 64 bits",
            )  # fmt: skip
        if steps < factor or steps % factor or (factor ** (low + 1) > steps and factor ** (low + 1) % steps):
            raise Rejected(
                Tag.D_LLQUANT_FACTORNSTEPS, call.span,
                "llquantize( ) factor (argument #2) must divide the number of steps (argument #5)",
            )  # fmt: skip
        if (high - low + 1) * steps > _MOST_CELLS:
            raise Rejected(Tag.D_LLQUANT_FACTORNSTEPS, call.span, f"llquantize( ) has more than {_MOST_CELLS} buckets")
        return Aggregating(Function.LLQUANTIZE, low, high, 1, factor, steps)


def _integer(key: Datum) -> Type:
    """What a key is converted to: the type of the first one at its place."""
    return Pointer(VOID) if key.pointer else Integer(f"{8 * key.size}-bit integer", key.size, key.signed, 0)
