# SPDX-License-Identifier: LGPL-2.1-or-later
"""Values of C as the model has them, and what operators make of them.

An integer wraps in its type. A text stands for a pointer to it, so that no memory is needed to say what a path was.
Structs are known by whatever an event says of them, a text or a number, and can be bound and compared.
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
    """``type`` is None of a struct, or where it is not known."""

    value: Value
    type: Type | None = None


class Undefined(Exception):
    """C gives it no value, or the model cannot compute it."""


def integer(value: int, type_: Integer = INT) -> Cell:
    return Cell(constants.integer(value, type_).value, type_)


def told(value: Value) -> Cell:
    """A value that an event gives without a type: a long where it fits."""
    if isinstance(value, str):
        return Cell(value, _TEXT)
    if isinstance(value, float):
        return Cell(value)
    return integer(value, INT64 if -(1 << 63) <= value < 1 << 63 else UINT64)


def converted(cell: Cell, type_: Type | None) -> Cell:
    """As a name of that type holds it: an integer wraps, an array of characters has its NUL in it."""
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
    """Whether what a name is bound to again is what it is bound to: both in the type it has."""
    return converted(found, bound.type).value == bound.value


def truth(cell: Cell) -> bool:
    """A text is a pointer to something, so it is true."""
    return isinstance(cell.value, str) or cell.value != 0


def unary(operator: str, operand: Cell) -> Cell:
    """Raises Undefined."""
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
    """Raises Undefined, of a division by zero too."""
    if isinstance(left.value, str) or isinstance(right.value, str) or _is_plain(left) or _is_plain(right):
        return _compared(operator, left, right)
    if isinstance(left.type, Pointer) or isinstance(right.type, Pointer):
        return _moved(operator, left, right)
    return _computed(operator, _constant(left), _constant(right))


def _is_plain(cell: Cell) -> bool:
    return isinstance(cell.value, float)


def _compared(operator: str, left: Cell, right: Cell) -> Cell:
    """Texts by what they say; a text is no number. Floating point values as Python has them."""
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
    """Pointers: compared as addresses, moved by elements."""
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
    """As C has it, in the type that both are converted to; a shift is done in that of the left operand alone."""
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
