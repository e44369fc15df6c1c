# SPDX-License-Identifier: LGPL-2.1-or-later
"""Constant expressions, which are computed at compile time. The arithmetic is that of the code: it wraps, in the type
in which it is done.
"""

from __future__ import annotations

from collections.abc import Callable

from gilk.lang import ir
from gilk.lang.types import INT, Integer, Type, wrapped


def _quotient(a: int, b: int) -> int:
    """The quotient rounded towards zero, as in C."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_LOGIC: dict[str, Callable[[bool, bool], bool]] = {
    "&&": lambda a, b: a and b,
    "||": lambda a, b: a or b,
    "^^": lambda a, b: a != b,
}


def _shifted(operator: str, value: int, by: int, size: int) -> int:
    """A shift as the processor does it: only the low bits of the count matter."""
    by &= 8 * size - 1
    return value << by if operator == "<<" else value >> by


def binary(operator: str, type_: Type, left: ir.Expression, right: ir.Expression) -> ir.Expression:
    """An operator applied to its operands. A division by zero is left for the probe, where it is an error of the
    clause.
    """
    if isinstance(left, ir.Constant) and isinstance(right, ir.Constant):
        value = _value(operator, left, right)
        if value is not None:
            return ir.Constant(type_, wrapped(value, type_) if isinstance(type_, Integer) else value)
    return ir.Binary(type_, operator, left, right)


def _value(operator: str, left: ir.Constant, right: ir.Constant) -> int | None:
    a, b = left.value, right.value
    if operator in _ARITHMETIC:
        return _ARITHMETIC[operator](a, b)
    if operator in _COMPARISONS:
        return int(_COMPARISONS[operator](a, b))
    if operator in _LOGIC:
        return int(_LOGIC[operator](a != 0, b != 0))
    if operator in ("<<", ">>"):
        return _shifted(operator, a, b, left.type.size if isinstance(left.type, Integer) else 8)
    if b == 0:
        return None
    return _quotient(a, b) if operator == "/" else a - b * _quotient(a, b)


def unary(operator: str, type_: Type, operand: ir.Expression) -> ir.Expression:
    if isinstance(operand, ir.Constant) and isinstance(type_, Integer):
        value = {"-": -operand.value, "~": ~operand.value, "!": int(not operand.value)}[operator]
        return ir.Constant(type_, wrapped(value, type_))
    return ir.Unary(type_, operator, operand)


def convert(type_: Type, operand: ir.Expression) -> ir.Expression:
    if operand.type == type_:
        return operand
    if isinstance(operand, ir.Constant) and isinstance(type_, Integer):
        return ir.Constant(type_, wrapped(operand.value, type_))
    return ir.Convert(type_, operand)


def late(type_: Integer, computed: ir.Expression) -> ir.Expression:
    """The result of an operator of type ``type_``, where ``computed`` is its value in 64 bits."""
    if computed.type == type_:
        return computed
    if isinstance(computed, ir.Constant) and wrapped(computed.value, type_) == computed.value:
        return ir.Constant(type_, computed.value)
    return ir.Convert(type_, computed, late=True)


def uncut(type_: Type, operand: ir.Expression) -> ir.Expression:
    """``operand`` converted to ``type_`` from all 64 bits that its operator has computed."""
    return convert(type_, operand.operand if isinstance(operand, ir.Convert) and operand.late else operand)


def cut(operand: ir.Expression) -> ir.Expression:
    """The value cut to its own type."""
    if isinstance(operand, ir.Convert) and operand.late:
        return convert(operand.type, ir.Convert(operand.type, operand.operand))
    return operand


def truth(operand: ir.Expression) -> bool | None:
    """Whether the operand is true; None if that is known only when the program runs."""
    if isinstance(operand, ir.Constant):
        return operand.value != 0
    return None


def integer(value: int, type_: Integer = INT) -> ir.Constant:
    return ir.Constant(type_, wrapped(value, type_))


def holds(type_: Integer, value: int) -> bool:
    """Whether ``value``, which is not negative, fits the type."""
    return value < 1 << (8 * type_.size - type_.signed)
