# SPDX-License-Identifier: LGPL-2.1-or-later
"""The parameters of lquantize() and llquantize(): constants, checked from left to right, with DTrace's tags and
messages.

The messages number arguments from 0, as DTrace does: #1 is the one after the value.
"""

from __future__ import annotations

from gilk.lang import ir
from gilk.lang.d.meaning import typed
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.data import Aggregating, Function
from gilk.lang.syntax.source import Rejected
from gilk.lang.types import is_arithmetic

_U16 = (1 << 16) - 1
_MOST_CELLS = 1 << 16


def linear(given: typed.AggregateCall) -> Aggregating:
    """The parameters of lquantize(). Raises Rejected."""
    low = _constant(given, 1, Tag.D_LQUANT_BASETYPE)
    _refuse(given, not _is_int32(low), Tag.D_LQUANT_BASEVAL, "argument #1 must be a 32-bit quantity")
    high = _constant(given, 2, Tag.D_LQUANT_LIMTYPE)
    _refuse(given, not _is_int32(high), Tag.D_LQUANT_LIMVAL, "argument #2 must be a 32-bit quantity")
    what = "base (argument #1) must be less than limit (argument #2)"
    _refuse(given, high <= low, Tag.D_LQUANT_MISMATCH, what)
    step = 1
    if len(given.arguments) > 3:
        step = _positive(given, 3, Tag.D_LQUANT_STEPTYPE)
        _refuse(given, step > _U16, Tag.D_LQUANT_STEPVAL, "argument #3 must be a 16-bit quantity")
    levels = (high - low) // step
    what = "step (argument #3) too large: must have at least one quantization level"
    _refuse(given, not levels, Tag.D_LQUANT_STEPLARGE, what)
    what = "step (argument #3) too small: number of quantization levels must be a 16-bit quantity"
    _refuse(given, levels > _U16, Tag.D_LQUANT_STEPSMALL, what)
    return Aggregating(Function.LQUANTIZE, low, high, step)


def logarithmic(given: typed.AggregateCall) -> Aggregating:
    """The parameters of llquantize(). Raises Rejected."""
    factor = _constant(given, 1, Tag.D_LLQUANT_FACTORTYPE)
    what = "argument #1 must be an unsigned 16-bit quantity greater than or equal to 2"
    _refuse(given, not 2 <= factor <= _U16, Tag.D_LLQUANT_FACTORVAL, what)
    low = _constant(given, 2, Tag.D_LLQUANT_LMAGTYPE)
    _refuse(given, not 0 <= low <= _U16, Tag.D_LLQUANT_LMAGVAL, "argument #2 must be an unsigned 16-bit quantity")
    high = _constant(given, 3, Tag.D_LLQUANT_HMAGTYPE)
    _refuse(given, not 0 <= high <= _U16, Tag.D_LLQUANT_HMAGVAL, "argument #3 must be an unsigned 16-bit quantity")
    what = "argument #3 (high magnitude) must be at least argument #2 (low magnitude)"
    _refuse(given, high < low, Tag.D_LLQUANT_HMAGVAL, what)
    what = "argument #3 (high magnitude) will cause overflow of 64 bits"
    _refuse(given, high > 63 or factor ** (high + 1) >= 1 << 64, Tag.D_LLQUANT_HMAGVAL, what)
    steps = _positive(given, 4, Tag.D_LLQUANT_STEPTYPE)
    _refuse(given, steps > _U16, Tag.D_LLQUANT_STEPVAL, "argument #4 must be an unsigned 16-bit quantity")
    _check_steps(given, factor, low, steps)
    what = f"has more than {_MOST_CELLS} buckets"
    _refuse(given, (high - low + 1) * steps > _MOST_CELLS, Tag.D_LLQUANT_STEPVAL, what)
    return Aggregating(Function.LLQUANTIZE, low, high, 1, factor, steps)


def _check_steps(given: typed.AggregateCall, factor: int, low: int, steps: int) -> None:
    """Raises Rejected unless the steps of each magnitude begin at integers."""
    what = "argument #4 (steps) must evenly divide argument #1 (factor) when steps<factor"
    _refuse(given, steps < factor and factor % steps != 0, Tag.D_LLQUANT_STEPVAL, what)
    if steps <= factor:
        return
    what = "argument #4 (steps) must be a multiple of argument #1 (factor) when steps>factor"
    _refuse(given, steps % factor != 0, Tag.D_LLQUANT_STEPVAL, what)
    if low == 0:
        what = "argument #4 (steps) must evenly divide the square of argument #1 (factor) when steps>factor and lmag==0"
        _refuse(given, factor**2 % steps != 0, Tag.D_LLQUANT_STEPVAL, what)
    else:
        what = "argument #4 (steps) must evenly divide pow(argument #1 (factor), lmag (argument #2) + 1) "
        what += "when steps>factor and lmag>0"
        _refuse(given, factor ** (low + 1) % steps != 0, Tag.D_LLQUANT_STEPVAL, what)


def check_alike(given: typed.AggregateCall, known: Aggregating, now: Aggregating) -> None:
    """Raises Rejected unless an aggregation has the same parameters as at its first use."""
    if known.function is Function.LQUANTIZE:
        top, its = (one.low + (one.high - one.low) // one.step * one.step for one in (known, now))
        rows: list[tuple[Tag, str, int, int]] = [
            (Tag.D_LQUANT_MATCHBASE, "base (argument #1)", known.low, now.low),
            (Tag.D_LQUANT_MATCHLIM, "limit (argument #2)", top, its),
            (Tag.D_LQUANT_MATCHSTEP, "step (argument #3)", known.step, now.step),
        ]
    else:
        rows = [
            (Tag.D_LLQUANT_MATCHFACTOR, "factor (argument #1)", known.factor, now.factor),
            (Tag.D_LLQUANT_MATCHLMAG, "lmag (argument #2)", known.low, now.low),
            (Tag.D_LLQUANT_MATCHHMAG, "hmag (argument #3)", known.high, now.high),
            (Tag.D_LLQUANT_MATCHSTEPS, "steps (argument #4)", known.steps, now.steps),
        ]
    for tag, name, before, found in rows:
        what = f"{name} doesn't match previous declaration: expected {before}, found {found}"
        _refuse(given, before != found, tag, what)


def _constant(given: typed.AggregateCall, number: int, tag: Tag) -> int:
    value = given.arguments[number]
    if isinstance(value, ir.Constant) and is_arithmetic(value.type):
        return value.value
    raise _wrong(given, tag, f"argument #{number} must be an integer constant")


def _positive(given: typed.AggregateCall, number: int, tag: Tag) -> int:
    value = given.arguments[number]
    if isinstance(value, ir.Constant) and is_arithmetic(value.type) and value.value > 0:
        return value.value
    raise _wrong(given, tag, f"argument #{number} must be a non-zero positive integer constant")


def _is_int32(value: int) -> bool:
    return -(1 << 31) <= value < 1 << 31


def _refuse(given: typed.AggregateCall, wrong: bool, tag: Tag, what: str) -> None:
    if wrong:
        raise _wrong(given, tag, what)


def _wrong(given: typed.AggregateCall, tag: Tag, what: str) -> Rejected:
    return Rejected(tag, given.call.span, f"{given.call.name}( ) {what}")
