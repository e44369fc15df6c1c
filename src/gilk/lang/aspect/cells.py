# SPDX-License-Identifier: LGPL-2.1-or-later
"""The model's values of C, and the operators on them.

An integer wraps in its type. A text stands for a pointer to it, so the model can say what a path was without having
memory. A struct is represented by the text or number that an event gives for it, and can be bound and compared.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from gilk.lang import ir
from gilk.lang.d.meaning import constants
from gilk.lang.types import CHAR, INT, INT64, UINT64, Array, Enumeration, Integer, Pointer, Type, common, size_of
from gilk.values import dataclass

Value: TypeAlias = int | float | str

_TEXT = Pointer(CHAR)
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Cell:
    """A value with its type; ``type`` is None for a struct or an unknown type."""

    value: Value
    type: Type | None = None


class Undefined(Exception):
    """An operation has no value in C, or the model cannot compute it."""


def integer(value: int, type_: Integer = INT) -> Cell:
    return Cell(constants.integer(value, type_).value, type_)


def told(value: Value) -> Cell:
    """The value that an event gives without a type: an integer becomes a long, or an unsigned long if it
    does not fit.
    """
    if isinstance(value, str):
        return Cell(value, _TEXT)
    if isinstance(value, float):
        return Cell(value)
    return integer(value, INT64 if -(1 << 63) <= value < 1 << 63 else UINT64)


def converted(cell: Cell, type_: Type | None) -> Cell:
    """The value as a name of ``type_`` holds it: an integer wraps, and a text is cut to fit an array with its NUL."""
    if isinstance(cell.value, str):
        return _text(cell.value, type_)
    if isinstance(cell.value, int) and isinstance(type_, Integer):
        return integer(cell.value, type_)
    if isinstance(cell.value, int) and isinstance(type_, Pointer):
        return Cell(cell.value & (1 << 64) - 1, type_)
    return Cell(cell.value, type_)


def _text(value: str, type_: Type | None) -> Cell:
    if not isinstance(type_, Array):
        return Cell(value, type_ if isinstance(type_, Pointer) else _TEXT)
    data = value.encode("utf-8", "surrogateescape").split(b"\0", 1)[0][: max(type_.count - 1, 0)]
    return Cell(data.decode("utf-8", "surrogateescape"), type_)


def equal(bound: Cell, found: Cell) -> bool:
    """Whether ``found`` equals the value ``bound`` that a name has, in the type of that name."""
    return converted(found, bound.type).value == bound.value


def truth(cell: Cell) -> bool:
    """Whether C takes the value as true. A text is a pointer to something, so it is true."""
    return isinstance(cell.value, str) or cell.value != 0


def unary(operator: str, operand: Cell) -> Cell:
    """The value of a unary operator. Raises Undefined."""
    if operator == "!":
        return integer(int(not truth(operand)))
    if operator == "+":
        return operand
    if isinstance(operand.value, float) and operator == "-":
        return Cell(-operand.value)
    constant = _constant(operand)
    type_ = common(constant.type, INT)
    found = constants.unary(operator, type_, constants.convert(type_, constant))
    assert isinstance(found, ir.Constant)
    return Cell(found.value, type_)


def binary(operator: str, left: Cell, right: Cell) -> Cell:
    """The value of a binary operator. Raises Undefined, also for a division by zero."""
    if isinstance(left.value, str) or isinstance(right.value, str) or _is_plain(left) or _is_plain(right):
        return _compared(operator, left, right)
    if isinstance(left.type, Pointer) or isinstance(right.type, Pointer):
        return _moved(operator, left, right)
    return _computed(operator, _constant(left), _constant(right))


def _is_plain(cell: Cell) -> bool:
    return isinstance(cell.value, float)


def _compared(operator: str, left: Cell, right: Cell) -> Cell:
    """The value of an operator with a text or a floating-point operand. Texts are compared by their characters; a text
    equals no number. Floating-point numbers are computed as in Python. Raises Undefined.
    """
    a, b = left.value, right.value
    if operator in ("==", "!="):
        return integer(int((a == b) == (operator == "==")))
    if isinstance(a, str) or isinstance(b, str):
        raise Undefined(f"{operator} of a text")
    try:
        found = _FLOATING[operator](float(a), float(b))
    except (KeyError, ZeroDivisionError, OverflowError) as error:
        raise Undefined(f"{operator} of {a} and {b}") from error
    if isinstance(found, bool):
        return integer(int(found))
    if not math.isfinite(found):
        raise Undefined(f"{operator} of {a} and {b}")
    return Cell(found)


_FLOATING = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _moved(operator: str, left: Cell, right: Cell) -> Cell:
    """The value of an operator with a pointer: pointers are compared as addresses and moved by elements."""
    a, b = Cell(left.value, UINT64), Cell(right.value, UINT64)
    if operator in ("+", "-") and not (isinstance(left.type, Pointer) and isinstance(right.type, Pointer)):
        pointer = left.type if isinstance(left.type, Pointer) else right.type
        assert isinstance(pointer, Pointer)
        scale = integer(size_of(pointer.to, 0) or 1, UINT64)
        moved = (a, binary("*", b, scale)) if pointer is left.type else (binary("*", a, scale), b)
        return converted(binary(operator, *moved), pointer)
    if operator == "-" and isinstance(left.type, Pointer):
        apart = Cell(binary("-", a, b).value, UINT64)
        return binary("/", converted(apart, INT64), integer(size_of(left.type.to, 0) or 1, INT64))
    return binary(operator, a, b)


def _computed(operator: str, left: ir.Constant, right: ir.Constant) -> Cell:
    """The value of an operator as C computes it, in the type to which both operands are converted; a shift is computed
    in the type of its left operand.
    """
    shift = operator in ("<<", ">>")
    inner = common(left.type, INT) if shift else common(left.type, right.type)
    other = common(right.type, INT) if shift else inner
    result = INT if operator in _COMPARISONS else inner
    found = constants.binary(operator, result, constants.convert(inner, left), constants.convert(other, right))
    if not isinstance(found, ir.Constant):
        raise Undefined(f"{left.value} {operator} {right.value}")
    return Cell(found.value, result)


def _constant(cell: Cell) -> ir.Constant:
    if not isinstance(cell.value, int):
        raise Undefined(f"arithmetic with {cell.value!r}")
    type_ = cell.type if isinstance(cell.type, Integer | Enumeration) else INT64
    return ir.Constant(type_, cell.value)
