# SPDX-License-Identifier: LGPL-2.1-or-later
"""Macro variables: ``$pid``, ``$target``, ``$1``, ``$$1``. Their values replace them when a program is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from gilk.lang.d import literals
from gilk.lang.d.tags import SyntaxTag
from gilk.lang.syntax.source import Rejected, Span
from gilk.values import dataclass

_INTEGER = re.compile(r"([-+]?)(\d\w*)", re.ASCII)
_IDENTIFIER = re.compile(r"[A-Za-z_`][\w`]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Macros:
    """The values of macro variables. ``values`` are by name, without the ``$``. ``arguments[0]`` is ``$0``, the
    program.

    ``default`` (-x defaultargs): a missing argument is 0, or "". ``argref`` (-x argref): a given argument need not be
    used.
    """

    values: Mapping[str, int] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    default: bool = False
    argref: bool = False


@dataclass(frozen=True, slots=True)
class MacroInteger:
    value: int
    suffix: str = ""
    decimal: bool = True


@dataclass(frozen=True, slots=True)
class Identifier:
    name: str


@dataclass(frozen=True, slots=True)
class MacroString:
    value: str


class Substitution:
    """A replacer of macro variables, which notes the arguments that were used."""

    def __init__(self, macros: Macros) -> None:
        self.macros = macros
        self.used: set[int] = set()

    def expression(self, text: str, span: Span) -> MacroInteger | Identifier | MacroString:
        """The operand that replaces the macro variable ``text``, which begins with ``$``, in an expression. Raises
        Rejected.
        """
        name = text.lstrip("$")
        if name.isdigit():
            value = self._argument(text, span)
            return MacroString(literals.unescaped(value)) if text.startswith("$$") else _of(value, text, span)
        number = self._variable(text, span)
        return MacroString(str(number & 0xFFFFFFFF)) if text.startswith("$$") else MacroInteger(number)

    def description(self, text: str, span: Span) -> str:
        """The text that replaces the macro variable ``text`` in a probe's description. Raises Rejected."""
        try:
            return self._argument(text, span) if text.lstrip("$").isdigit() else str(self._variable(text, span))
        except Rejected as error:
            raise Rejected(SyntaxTag.D_PDESC_INVAL, span, f"invalid probe description: {error}") from None

    def unused(self) -> list[tuple[int, str]]:
        """The arguments that the program does not use, with their numbers."""
        if self.macros.argref:
            return []
        return [(i, one) for i, one in enumerate(self.macros.arguments) if i and i not in self.used]

    def _argument(self, text: str, span: Span) -> str:
        number = int(text.lstrip("$")[:9])
        if number < len(self.macros.arguments):
            self.used.add(number)
            return self.macros.arguments[number]
        if not self.macros.default:
            hint = "give it after the program; with -x defaultargs what is missing is 0, or an empty string"
            raise Rejected(SyntaxTag.D_MACRO_UNDEF, span, f"macro argument {text} is not defined", hint)
        return "" if text.startswith("$$") else "0"

    def _variable(self, text: str, span: Span) -> int:
        value = self.macros.values.get(text.lstrip("$"))
        if value is None:
            raise Rejected(SyntaxTag.D_MACRO_UNDEF, span, f"macro variable {text} is not defined")
        return value


def _of(value: str, text: str, span: Span) -> MacroInteger | Identifier | MacroString:
    """The operand for an argument: an integer or a name if it can be one, otherwise a string."""
    if _IDENTIFIER.fullmatch(value):
        return Identifier(value)
    found = _INTEGER.fullmatch(value)
    try:
        number, suffix, decimal = literals.integer(found[2] if found else "", span)
    except Rejected as error:
        if error.diagnostic.tag == SyntaxTag.D_INT_OFLOW:
            message = f"macro argument {text} constant {value} results in integer overflow"
            raise Rejected(SyntaxTag.D_MACRO_OFLOW, span, message) from None
        quoted = len(value) > 1 and value[0] == value[-1] == '"'
        return MacroString(literals.unescaped(value[1:-1] if quoted else value))
    return MacroInteger(-number if found and found[1] == "-" else number, suffix, decimal)
