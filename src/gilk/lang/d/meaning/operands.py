# SPDX-License-Identifier: LGPL-2.1-or-later
"""The types that operators require of their operands, and in which they compute. Operands that do not fit
are Rejected.
"""

from __future__ import annotations

from typing import TypeGuard

from gilk.lang import ir
from gilk.lang.d.meaning import constants
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.syntax.source import Rejected, Span
from gilk.lang.types import (
    CHAR,
    INT,
    INT64,
    STRING,
    UINT64,
    Array,
    Float,
    Integer,
    Pointer,
    String,
    Type,
    Void,
    common,
    is_arithmetic,
    is_scalar,
    ranked,
    size_of,
    text,
    wide,
)

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
LOGIC = ("&&", "||", "^^")


def decayed(value: ir.Expression) -> ir.Expression:
    """``value``, or the address of its beginning if it is an array in the process."""
    if isinstance(value, ir.Field) and isinstance(value.type, Array):
        return ir.Convert(Pointer(value.type.of), value.address)
    return value


def placed(value: ir.Expression) -> ir.Expression:
    """``value``, or its address if it is an array, in the process or in a variable at a fixed place; operations on
    pointers use this.
    """
    if isinstance(value.type, Array) and is_placed(value):
        return ir.Address(Pointer(value.type.of), value)
    return decayed(value)


def pointing(value: ir.Expression, beside: Type) -> ir.Expression:
    """``value`` as an operand beside one of type ``beside``: characters beside a string stay a text, other arrays
    become addresses.
    """
    return value if isinstance(beside, String) and holds_text(value) else placed(value)


def is_placed(value: ir.Expression) -> TypeGuard[ir.Place | ir.Part]:
    """Whether the value lies at a fixed place, so that it has an address."""
    if isinstance(value, ir.Part):
        return isinstance(value.whole, ir.Place) and not value.bits
    return isinstance(value, ir.Place)


def is_text(type_: Type) -> bool:
    """Whether the type is a string, or a pointer to characters, which can be made a string."""
    return isinstance(type_, String) or (
        isinstance(type_, Pointer) and isinstance(type_.to, Integer) and type_.to.size == CHAR.size
    )


def holds_text(value: ir.Expression) -> bool:
    """Whether the value is an array of characters."""
    return is_characters(value.type)


def is_characters(type_: Type) -> bool:
    """Whether the type is an array of characters."""
    return isinstance(type_, Array) and isinstance(type_.of, Integer) and type_.of.size == CHAR.size


def as_string(value: ir.Expression, span: Span, operator: str = "stringof") -> ir.Expression:
    if isinstance(value.type, String):
        return value
    if isinstance(value, ir.Part | ir.Place | ir.Keyed) and holds_text(value):
        return ir.Convert(STRING, value)
    value = decayed(value)
    if is_text(value.type) or (operator in ("stringof", "cast") and is_scalar(value.type)):
        return ir.Convert(STRING, value)
    raise Rejected(Tag.D_STRINGOF_TYPE, span, f"cannot apply stringof to a value of type {text(value.type)}")


def is_null(value: ir.Expression) -> bool:
    return isinstance(value, ir.Constant) and not value.value


#: The value to which NULL or 0 sets a string variable.
NO_STRING = ir.Constant(STRING, 0)


def is_assignable(to: Type, from_: Type) -> bool:
    if isinstance(to, String):
        return is_text(from_) or is_characters(from_)
    if isinstance(to, Pointer) and isinstance(from_, String):
        return is_text(to)
    if is_scalar(to):
        return is_scalar(from_)
    return to == from_


def is_mixed(to: Type, value: ir.Expression) -> bool:
    """Whether one operand is a pointer and the other a number, not the constant 0: that takes a cast in DTrace."""
    given = decayed(value)
    if not is_scalar(to) or not is_scalar(given.type) or is_null(given):
        return False
    return isinstance(to, Pointer) != isinstance(given.type, Pointer)


def converted(to: Type, value: ir.Expression, span: Span) -> ir.Expression:
    """``value`` converted to type ``to``, to which it can be assigned."""
    if isinstance(to, String):
        return as_string(value, span)
    if isinstance(value.type, String):
        return ir.Call(to, "placed", (value,))
    return constants.uncut(to, decayed(value))


def unary(operator: str, operand: ir.Expression, span: Span) -> ir.Expression:
    if operator == "!":
        if not is_scalar(operand.type):
            raise Rejected(Tag.D_OP_SCALAR, span, "operator ! requires an operand of scalar type")
        return constants.unary("!", INT, operand)
    if not is_arithmetic(operand.type):
        raise Rejected(Tag.D_OP_ARITH, span, f"operator {operator} requires an operand of arithmetic type")
    if operator == "+":
        return operand
    type_ = ranked(operand.type, operand.type)
    return constants.late(type_, constants.unary(operator, wide(type_), constants.uncut(wide(type_), operand)))


def binary(operator: str, left: ir.Expression, right: ir.Expression, span: Span, strsize: int) -> ir.Expression:
    """A binary operator applied to its operands. ``strsize``: the bytes of a string, by which pointers to strings move.
    Raises Rejected.
    """
    for each in (left, right):
        _check_kind(operator, each.type, span)
    if operator in LOGIC:
        return _logic(operator, left, right, span)
    if operator in COMPARISONS:
        return _comparison(operator, left, right, span)
    if operator == "+" and (isinstance(left.type, String) or isinstance(right.type, String)):
        return _after(left, right, span)
    if operator in ("+", "-") and (isinstance(left.type, Pointer) or isinstance(right.type, Pointer)):
        return _pointer(operator, left, right, span, strsize)
    if not is_arithmetic(left.type) or not is_arithmetic(right.type):
        if operator in ("+", "-"):
            raise Rejected(*incompatible(operator, left.type, right.type, span))
        raise Rejected(*_not_arithmetic(operator, span))
    if operator in ("<<", ">>"):
        type_ = ranked(left.type, left.type)
        by = constants.uncut(INT64, right)
        return constants.late(type_, constants.binary(operator, wide(type_), constants.uncut(wide(type_), left), by))
    type_ = ranked(left.type, right.type)
    a, b = (constants.uncut(wide(type_), each) for each in (left, right))
    return constants.late(type_, constants.binary(operator, wide(type_), a, b))


def _after(left: ir.Expression, right: ir.Expression, span: Span) -> ir.Expression:
    """The rest of a string, without so many bytes at its beginning."""
    value, by = (left, right) if isinstance(left.type, String) else (right, left)
    if not is_arithmetic(by.type):
        raise Rejected(*incompatible("+", left.type, right.type, span))
    return ir.Call(STRING, "after", (value, constants.uncut(INT64, by)))


def _not_arithmetic(operator: str, span: Span) -> tuple[str, Span, str]:
    integral = operator in ("%", "&", "|", "^", "<<", ">>")
    kind = "integral" if integral else "arithmetic"
    return (
        Tag.D_OP_INT if integral else Tag.D_OP_ARITH,
        span,
        f"operator {operator} requires operands of {kind} type",
    )


def _check_kind(operator: str, type_: Type, span: Span) -> None:
    if isinstance(type_, Float):
        raise Rejected(Tag.D_OP_INCOMPAT, span, f"operator {operator} cannot be applied to floating point values")


def _logic(operator: str, left: ir.Expression, right: ir.Expression, span: Span) -> ir.Expression:
    if not is_scalar(left.type) or not is_scalar(right.type):
        raise Rejected(Tag.D_OP_SCALAR, span, f"operator {operator} requires operands of scalar type")
    known = constants.truth(left)
    if (operator, known) in (("&&", False), ("||", True)):
        return constants.integer(int(bool(known)))
    return constants.binary(operator, INT, left, right)


def _comparison(operator: str, left: ir.Expression, right: ir.Expression, span: Span) -> ir.Expression:
    if is_scalar(left.type) and is_scalar(right.type):
        pointers = isinstance(left.type, Pointer) or isinstance(right.type, Pointer)
        type_ = UINT64 if pointers else common(left.type, right.type)
        return constants.binary(operator, INT, constants.convert(type_, left), constants.convert(type_, right))
    for one, other in ((left, right), (right, left)):
        null = is_null(other) and isinstance(other.type, Pointer)
        if isinstance(one.type, String) and null and operator in ("==", "!="):
            return ir.Binary(INT, operator, ir.Call(INT, "is_set", (one,)), constants.integer(0))
    texts = is_assignable(STRING, left.type) and is_assignable(STRING, right.type)
    if texts and (isinstance(left.type, String) or isinstance(right.type, String)):
        return ir.Binary(INT, operator, as_string(left, span), as_string(right, span))
    raise Rejected(*incompatible(operator, left.type, right.type, span))


def incompatible(operator: str, left: Type, right: Type, span: Span) -> tuple[str, Span, str]:
    return Tag.D_OP_INCOMPAT, span, f'operands have incompatible types: "{text(left)}" {operator} "{text(right)}"'


def _pointer(operator: str, left: ir.Expression, right: ir.Expression, span: Span, strsize: int) -> ir.Expression:
    if isinstance(left.type, Pointer) and isinstance(right.type, Pointer):
        if operator == "+" or left.type != right.type:
            raise Rejected(*incompatible(operator, left.type, right.type, span))
        size = ir.Constant(INT64, max(size_of(left.type.to, strsize), 1))
        bytes_ = ir.Binary(INT64, "-", constants.convert(INT64, left), constants.convert(INT64, right))
        return ir.Binary(INT64, "/", bytes_, size)
    if operator == "-" and isinstance(right.type, Pointer):
        raise Rejected(*incompatible(operator, left.type, right.type, span))
    pointer, index = (left, right) if isinstance(left.type, Pointer) else (right, left)
    assert isinstance(pointer.type, Pointer)
    if not is_arithmetic(index.type) or isinstance(pointer.type.to, Void):
        raise Rejected(*incompatible(operator, left.type, right.type, span))
    return offset(pointer, operator, index, strsize)


def offset(pointer: ir.Expression, operator: str, index: ir.Expression, strsize: int) -> ir.Expression:
    """``pointer`` moved by ``index`` elements of its type."""
    assert isinstance(pointer.type, Pointer)
    size = max(size_of(pointer.type.to, strsize), 1)
    distance = constants.binary("*", INT64, constants.uncut(INT64, index), ir.Constant(INT64, size))
    moved = constants.binary(operator, UINT64, constants.convert(UINT64, pointer), constants.convert(UINT64, distance))
    return constants.convert(pointer.type, moved)


def at(type_: Type, address: ir.Expression, bits: int = 0, shift: int = 0) -> ir.Expression:
    """The value of type ``type_`` at ``address``. The characters of a string lie there, and are copied."""
    if isinstance(type_, String):
        return ir.Convert(STRING, constants.convert(Pointer(CHAR), address))
    return ir.Field(type_, address, bits, shift)


def moved(address: ir.Expression, by: int) -> ir.Expression:
    """``address`` moved by so many bytes."""
    start = constants.convert(UINT64, address)
    return constants.binary("+", UINT64, start, ir.Constant(UINT64, by)) if by else start
