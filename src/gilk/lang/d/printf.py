# SPDX-License-Identifier: LGPL-2.1-or-later
"""The format strings of printf() and its kin: their conversions, and a parser that takes a format apart.

There are DTrace's conversions, and also C's modifiers hh, j, z and t. printf_check.py checks arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Flag, StrEnum, auto
from typing import NoReturn

from gilk.lang.syntax.source import Rejected, Span
from gilk.values import dataclass

NOWHERE = Span(0, 0)


class PrintfTag(StrEnum):
    SYNTAX = "D_SYNTAX"  # for a format that cannot be taken apart
    FMT_EMPTY = "D_PRINTF_FMT_EMPTY"
    ARG_FMT = "D_PRINTF_ARG_FMT"
    ARG_PROTO = "D_PRINTF_ARG_PROTO"
    ARG_TYPE = "D_PRINTF_ARG_TYPE"
    ARG_EXTRA = "D_PRINTF_ARG_EXTRA"
    DYN_PROTO = "D_PRINTF_DYN_PROTO"
    DYN_TYPE = "D_PRINTF_DYN_TYPE"
    AGG_CONV = "D_PRINTF_AGG_CONV"
    PRINTA_PROTO = "D_PRINTA_PROTO"
    PRINTA_AGGARG = "D_PRINTA_AGGARG"
    PRINTA_AGGBAD = "D_PRINTA_AGGBAD"
    PRINTA_AGGKEY = "D_PRINTA_AGGKEY"
    PRINTA_AGGPROTO = "D_PRINTA_AGGPROTO"


class Shows(StrEnum):
    """How a conversion turns its argument into text."""

    SIGNED = "signed"
    UNSIGNED = "unsigned"
    EITHER = "either"  # signed or unsigned, as the argument's type
    CHARACTER = "character"
    WIDE_CHARACTER = "wide character"
    FLOAT = "float"
    ADDRESS = "address"  # the symbol at the address
    TEXT = "text"
    WIDE_TEXT = "wide text"
    ESCAPED = "escaped"
    STACK = "stack"
    TIME = "time"
    MAIL_TIME = "mail time"  # RFC 822


class Accepts(StrEnum):
    """The category of argument that a conversion takes. SIZED also checks the row's size and signedness."""

    ADDRESS = "address"
    KERNEL_ADDRESS = "kernel address"
    USER_ADDRESS = "user address"
    INTEGER = "integer"
    SMALL_INTEGER = "small integer"
    SIZED = "sized"
    TIME = "time"
    FLOAT = "float"
    LONG_DOUBLE = "long double"
    STRING = "string"
    WIDE_STRING = "wide string"
    STACK = "stack"


@dataclass(frozen=True, slots=True)
class Rule:
    """A conversion. ``letter``: the conversion of C that prints it. ``prototype``: messages name the expected type by
    this.
    """

    name: str
    letter: str
    prototype: str
    accepts: Accepts
    shows: Shows
    size: int = 0
    signed: bool | None = None  # None: either


_INTEGER = "char, short, int, long, or long long"
_SMALL = "char, short, or int"
_FLOAT = "float, double, or long double"
_ADDRESS = "pointer or integer"
_USER_ADDRESS = "pointer or integer (with -p/-c) or _usymaddr (without -p/-c)"
_STRING = "char [] or string (or use stringof)"
_WIDE_STRING = "wchar_t []"


def _sized(modifier: str, size: int, prototype: str) -> Iterator[Rule]:
    """The conversions d i o u x X with a modifier. x and X take either signedness."""
    for letter in "di":
        yield Rule(modifier + letter, letter, prototype, Accepts.SIZED, Shows.SIGNED, size, True)
    for letter in "ou":
        yield Rule(modifier + letter, letter, f"unsigned {prototype}", Accepts.SIZED, Shows.UNSIGNED, size, False)
    for letter in "xX":
        yield Rule(modifier + letter, letter, prototype, Accepts.SIZED, Shows.UNSIGNED, size)


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("a", "s", _ADDRESS, Accepts.KERNEL_ADDRESS, Shows.ADDRESS),
        Rule("A", "s", _USER_ADDRESS, Accepts.USER_ADDRESS, Shows.ADDRESS),
        Rule("c", "c", _SMALL, Accepts.SMALL_INTEGER, Shows.CHARACTER),
        Rule("C", "s", _SMALL, Accepts.SMALL_INTEGER, Shows.ESCAPED),
        Rule("lc", "c", "int", Accepts.SIZED, Shows.WIDE_CHARACTER, 4, True),
        Rule("wc", "c", "int", Accepts.SIZED, Shows.WIDE_CHARACTER, 4, True),
        Rule("d", "d", _INTEGER, Accepts.INTEGER, Shows.EITHER),
        Rule("i", "i", _INTEGER, Accepts.INTEGER, Shows.EITHER),
        *(Rule(letter, letter, _INTEGER, Accepts.INTEGER, Shows.UNSIGNED) for letter in "ouxX"),
        *_sized("hh", 1, "char"),
        *_sized("h", 2, "short"),
        *_sized("l", 8, "long"),
        *_sized("ll", 8, "long long"),
        *_sized("j", 8, "long"),
        *_sized("z", 8, "long"),
        *_sized("t", 8, "long"),
        *(Rule(letter, letter, _FLOAT, Accepts.FLOAT, Shows.FLOAT) for letter in "eEfgG"),
        *(Rule(f"L{letter}", letter, "long double", Accepts.LONG_DOUBLE, Shows.FLOAT) for letter in "eEfgG"),
        Rule("k", "s", "stack", Accepts.STACK, Shows.STACK),
        Rule("p", "x", _ADDRESS, Accepts.ADDRESS, Shows.UNSIGNED),
        Rule("s", "s", _STRING, Accepts.STRING, Shows.TEXT),
        Rule("S", "s", _STRING, Accepts.STRING, Shows.ESCAPED),
        Rule("ls", "s", _WIDE_STRING, Accepts.WIDE_STRING, Shows.WIDE_TEXT),
        Rule("ws", "s", _WIDE_STRING, Accepts.WIDE_STRING, Shows.WIDE_TEXT),
        Rule("T", "s", "int64_t", Accepts.TIME, Shows.MAIL_TIME),
        Rule("Y", "s", "int64_t", Accepts.TIME, Shows.TIME),
    )
}


class Flags(Flag):
    NONE = 0
    ALTERNATE = auto()  # "#"
    ZERO = auto()
    LEFT = auto()  # "-"; of this and ZERO the later one counts
    PLUS = auto()
    SPACE = auto()
    GROUP = auto()  # "'": without effect in the C locale


@dataclass(frozen=True, slots=True)
class LiteralText:
    """Text that is printed as it is; ``%%`` has become one ``%``."""

    text: str


@dataclass(frozen=True, slots=True)
class Conversion:
    """A conversion in a format. ``number``: its place among the format's conversions, from 1, by which messages name
    it.

    A dynamic width or precision is a ``*``: an argument of its own, before the value. A precision of 0 means none, as
    in DTrace.
    """

    number: int
    rule: Rule
    flags: Flags = Flags.NONE
    width: int = 0
    precision: int = 0
    dynamic_width: bool = False
    dynamic_precision: bool = False
    aggregation: bool = False  # "@": converts the aggregation's value, not a key


_FLAGS = {"#": Flags.ALTERNATE, "+": Flags.PLUS, " ": Flags.SPACE, "'": Flags.GROUP}
_MODIFIERS = "hlLwjzt"
_PERCENT = Rule("%", "%", "void", Accepts.INTEGER, Shows.TEXT)
_POINTER_WIDTH = 16  # "?": the width of an address in hexadecimal


def parse_format(text: str, span: Span = NOWHERE) -> tuple[LiteralText | Conversion, ...]:
    """The pieces of a format. Raises Rejected at ``span``, since D has no positions within strings."""
    pieces: list[LiteralText | Conversion] = []
    literal, at, number = "", 0, 0
    while at < len(text):
        if text[at] != "%":
            end = text.find("%", at) if "%" in text[at:] else len(text)
            literal, at = literal + text[at:end], end
            continue
        number += 1
        conversion, at = _Scanner(text, at + 1, number, span).conversion()
        if conversion.rule is _PERCENT:
            literal += "%"
            continue
        if literal:
            pieces.append(LiteralText(literal))
        pieces.append(conversion)
        literal = ""
    return (*pieces, LiteralText(literal)) if literal else tuple(pieces)


class _Scanner:
    """A scanner of one conversion. Flags, digits and modifiers may stand in any order; the first other
    letter ends it.
    """

    def __init__(self, text: str, at: int, number: int, span: Span) -> None:
        self.text, self.start, self.at, self.number, self.span = text, at, at, number, span
        self.found = Conversion(number, _PERCENT)
        self.dot = self.digits = False
        self.modifiers = ""

    def conversion(self) -> tuple[Conversion, int]:
        while True:
            character = self.text[self.at : self.at + 1]
            self.at += 1
            if not character:
                self.reject(
                    f"is undefined: %{self.modifiers}"
                    if self.modifiers
                    else "name expected before end of format string"
                )
            if not self.prefix(character):
                return replace(self.found, rule=self.rule(character)), self.at

    def prefix(self, character: str) -> bool:
        """Whether ``character`` belongs before the conversion's letter; if it does, note what it says.
        Raises Rejected.
        """
        if character in _MODIFIERS:
            self.modifiers += character
        elif character in _FLAGS:
            self.found = replace(self.found, flags=self.found.flags | _FLAGS[character])
        elif character == "-":
            self.found = replace(self.found, flags=(self.found.flags | Flags.LEFT) & ~Flags.ZERO)
        elif character.isascii() and character.isdigit():
            self.number_or_zero(character)
        elif character == "?":
            self.found = replace(self.found, width=_POINTER_WIDTH)
        elif character == "@":
            self.found = replace(self.found, aggregation=True)
        elif character == "*":
            self.star()
        elif character == ".":
            if self.dot:
                self.reject("has more than one '.' specified")
            self.dot, self.digits = True, False
        else:
            return False
        return True

    def number_or_zero(self, character: str) -> None:
        if character == "0" and not self.dot and not self.digits:
            self.found = replace(self.found, flags=(self.found.flags | Flags.ZERO) & ~Flags.LEFT)
            return
        begin, self.digits = self.at - 1, True
        while self.text[self.at : self.at + 1].isdigit() and self.text[self.at].isascii():
            self.at += 1
        value = min(int(self.text[begin : self.at][:12]), 0x7FFFFFFF)
        self.found = replace(self.found, precision=value) if self.dot else replace(self.found, width=value)

    def star(self) -> None:
        if self.found.dynamic_precision if self.dot else self.found.dynamic_width:
            self.reject(f"has more than one '*' specified for the output {'precision' if self.dot else 'width'}")
        self.found = (
            replace(self.found, dynamic_precision=True) if self.dot else replace(self.found, dynamic_width=True)
        )

    def rule(self, letter: str) -> Rule:
        if letter == "$":
            self.reject("uses unsupported positional format (%n$)")
        if letter == "%":
            if self.at - 1 == self.start:
                return _PERCENT
            self.reject("cannot be combined with other format flags: %%")
        rule = RULES.get(self.modifiers + letter)
        if rule is None:
            self.reject(f"is undefined: %{self.modifiers}{letter}")
        return rule

    def reject(self, what: str) -> NoReturn:
        raise Rejected(PrintfTag.SYNTAX, self.span, f"format conversion #{self.number} {what}")
