# SPDX-License-Identifier: LGPL-2.1-or-later
"""Checks that the arguments of printf(), printa(), system() and freopen() fit their format; the messages
are DTrace's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum

from gilk.lang.d.printf import NOWHERE, Accepts, Conversion, LiteralText, PrintfTag, Rule
from gilk.lang.data import Function
from gilk.lang.syntax.source import Rejected, Span
from gilk.values import dataclass


class Category(StrEnum):
    INTEGER = "integer"  # including enumerations
    FLOAT = "float"
    STRING = "string"  # including arrays of char
    WIDE_STRING = "wide string"  # an array of 32-bit integers
    POINTER = "pointer"
    STACK = "stack"  # stack(), ustack(), jstack()
    SYMBOL = "symbol"  # sym(), func(), mod()
    USER_SYMBOL = "user symbol"  # usym(), ufunc(), umod(), uaddr()
    AGGREGATION = "aggregation"
    OTHER = "other"  # structures, void


@dataclass(frozen=True, slots=True)
class ArgumentKind:
    """The known properties of an argument. ``name``: its type in messages, such as ``int`` or
    ``struct task_struct *``.
    """

    category: Category
    name: str
    size: int = 8
    signed: bool = True


def of_aggregation(function: Function) -> ArgumentKind:
    """The argument that ``%@`` converts; only that of a count() is unsigned."""
    counts = function is Function.COUNT
    return ArgumentKind(Category.INTEGER, "uint64_t" if counts else "int64_t", 8, not counts)


_ADDRESSES = frozenset({Category.POINTER, Category.INTEGER})
_CATEGORIES = {
    Accepts.ADDRESS: _ADDRESSES,
    Accepts.KERNEL_ADDRESS: _ADDRESSES | {Category.SYMBOL},
    Accepts.USER_ADDRESS: _ADDRESSES | {Category.USER_SYMBOL},
    Accepts.INTEGER: frozenset({Category.INTEGER}),
    Accepts.SMALL_INTEGER: frozenset({Category.INTEGER}),
    Accepts.SIZED: frozenset({Category.INTEGER}),
    Accepts.TIME: frozenset({Category.INTEGER}),
    Accepts.FLOAT: frozenset({Category.FLOAT}),
    Accepts.LONG_DOUBLE: frozenset({Category.FLOAT}),
    Accepts.STRING: frozenset({Category.STRING}),
    Accepts.WIDE_STRING: frozenset({Category.WIDE_STRING}),
    Accepts.STACK: frozenset({Category.STACK}),
}


def accepts(rule: Rule, argument: ArgumentKind, target: bool = True) -> bool:
    """Whether a conversion takes the argument. ``target``: -p or -c names a process, whose addresses ``%A`` then
    converts.
    """
    if argument.category not in _CATEGORIES[rule.accepts]:
        return False
    match rule.accepts:
        case Accepts.SMALL_INTEGER:
            return argument.size <= 4
        case Accepts.TIME:
            return argument.size == 8
        case Accepts.LONG_DOUBLE:
            return argument.size == 16
        case Accepts.USER_ADDRESS:
            return target or argument.category is Category.USER_SYMBOL
        case Accepts.SIZED:
            return argument.size == rule.size and rule.signed in (None, argument.signed)
    return True


def check(
    pieces: Sequence[LiteralText | Conversion],
    arguments: Sequence[ArgumentKind],
    *,
    function: str = "printf",
    aggregation: ArgumentKind | None = None,
    target: bool = True,
    span: Span = NOWHERE,
) -> None:
    """Raise Rejected unless ``arguments``, those after the format, fit.

    For printa() they are the keys, ``aggregation`` is the value that ``%@`` converts, and keys may be left over.
    """
    if not pieces and function != "freopen":  # freopen() with "" goes back to the first output
        raise Rejected(PrintfTag.FMT_EMPTY, span, f"{function}( ) format string is empty")
    checker = _Checker(function, aggregation, target, span, list(arguments))
    for piece in pieces:
        if isinstance(piece, Conversion):
            checker.conversion(piece)
    if checker.left and aggregation is None:
        text = f"{function}( ) prototype mismatch: only {checker.used} arguments required by this format string"
        raise Rejected(PrintfTag.ARG_EXTRA, span, text)


@dataclass(slots=True)
class _Checker:
    """The checker of one call. It takes arguments from the left of ``left``. The format itself is argument #1."""

    function: str
    aggregation: ArgumentKind | None
    target: bool
    span: Span
    left: list[ArgumentKind]
    used: int = field(default=0)

    def conversion(self, one: Conversion) -> None:
        if one.dynamic_width:
            self.dynamic(one, "*")
        if one.dynamic_precision:
            self.dynamic(one, ".*")
        what, argument = self.value(one)
        if accepts(one.rule, argument, self.target):
            return
        text = f"{self.function}( ) {what} is incompatible with conversion #{one.number} prototype:\n"
        text += f"\tconversion: %{one.rule.name}\n\t prototype: {one.rule.prototype}\n\t  argument: {argument.name}"
        raise Rejected(PrintfTag.ARG_TYPE, self.span, text)

    def value(self, one: Conversion) -> tuple[str, ArgumentKind]:
        """(name, kind) of the next argument; the name is for messages. Raises Rejected if there is no argument left."""
        if one.aggregation:
            if self.aggregation is None:
                text = f"%@ conversion requires an aggregation and is not for use with {self.function}( )"
                raise Rejected(PrintfTag.AGG_CONV, self.span, text)
            return "aggregating action", self.aggregation
        if not self.left:
            raise self.missing(PrintfTag.ARG_PROTO, one, "value")
        return self.take()

    def dynamic(self, one: Conversion, sign: str) -> None:
        if not self.left:
            raise self.missing(PrintfTag.DYN_PROTO, one, f'"{sign}"')
        what, argument = self.take()
        if argument.category is Category.INTEGER:
            return
        text = f"{self.function}( ) {what} is incompatible with conversion #{one.number} prototype:\n"
        text += f"\tconversion: % {sign} {one.rule.name}\n\t prototype: int\n\t  argument: {argument.name}"
        raise Rejected(PrintfTag.DYN_TYPE, self.span, text)

    def take(self) -> tuple[str, ArgumentKind]:
        self.used += 1
        return f"argument #{self.used + 1}", self.left.pop(0)

    def missing(self, tag: PrintfTag, one: Conversion, what: str) -> Rejected:
        text = f"{self.function}( ) prototype mismatch: conversion #{one.number} (%{one.rule.name}) "
        return Rejected(tag, self.span, f"{text}is missing a corresponding {what} argument")


def check_printa(arguments: Sequence[ArgumentKind], formatted: bool, span: Span = NOWHERE) -> None:
    """Raise Rejected unless printa()'s arguments, without the format if there is one, are one or more aggregations."""
    given, wanted = len(arguments) + formatted, 1 + formatted
    if given < wanted:
        text = f"printa( ) prototype mismatch: {given} args passed, {wanted} expected"
        raise Rejected(PrintfTag.PRINTA_PROTO, span, text)
    for argument in arguments:
        if argument.category is not Category.AGGREGATION:
            text = f"printa( ) argument #{wanted} is incompatible with prototype:\n"
            text += f"\tprototype: aggregation\n\t argument: {argument.name}"
            raise Rejected(PrintfTag.PRINTA_AGGARG, span, text)


def undefined_aggregation(name: str, span: Span = NOWHERE) -> Rejected:
    return Rejected(PrintfTag.PRINTA_AGGBAD, span, f"undefined aggregation: @{name}")


def check_joined(
    first: str, keys: Sequence[ArgumentKind], other: str, others: Sequence[ArgumentKind], span: Span = NOWHERE
) -> None:
    """Raise Rejected unless aggregations that one printa() prints side by side have the same keys."""
    if len(keys) != len(others):
        text = f"printa( ): @{first} and @{other} do not have matching key signatures: "
        text += f"@{first} has {_keys(len(keys))}, @{other} has {_keys(len(others))}"
        raise Rejected(PrintfTag.PRINTA_AGGKEY, span, text)
    for number, (one, two) in enumerate(zip(keys, others, strict=True), 1):
        if one.category is not two.category:
            text = f"printa( ): @{other}[ ] key #{number} is incompatible with @{first}:\n"
            text += f"{first:>9} key #{number}: {one.name}\n{other:>9} key #{number}: {two.name}"
            raise Rejected(PrintfTag.PRINTA_AGGPROTO, span, text)


def _keys(count: int) -> str:
    return f"{count} key{'' if count == 1 else 's'}"
