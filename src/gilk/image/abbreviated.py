# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names of C++ without those arguments of templates that have defaults: a program that is written with
``std::vector<int>`` has functions of ``std::vector<int, std::allocator<int> >``."""

from __future__ import annotations

import re
from typing import TypeAlias

OPERATOR = re.compile(r"operator(?:<=>|<<=|>>=|->\*|<<|>>|<=|>=|->|\(\)|\[\]|<|>)")
_SPACE = re.compile(r"(?<![\w$])\s+|\s+(?![\w$])")

_DEEPEST = 64  # lists of arguments in each other, in any name of a real program

#: A name: stretches of text, and between them the arguments of templates, each of them a name.
_Name: TypeAlias = "tuple[str | tuple[_Name, ...], ...]"


def abbreviates(typed: str, name: str) -> bool:
    """Whether ``typed`` is ``name`` but for arguments at the ends of lists of template arguments. Spaces that do not
    part words make no difference. Names with very deep lists are not compared."""
    try:
        return _fits(_Parser(typed).name(), _Parser(name).name())
    except _TooDeep:
        return False


def _fits(typed: _Name, name: _Name) -> bool:
    return len(typed) == len(name) and all(map(_is_like, typed, name))


def _is_like(typed: str | tuple[_Name, ...], name: str | tuple[_Name, ...]) -> bool:
    if isinstance(typed, str) or isinstance(name, str):
        return typed == name
    return 0 < len(typed) <= len(name) and all(map(_fits, typed, name))


class _TooDeep(Exception):
    """Lists of arguments lie too deep in each other."""


class _Parser:
    """Parses one name. Brackets of operators are text. Raises _TooDeep."""

    def __init__(self, name: str) -> None:
        self._text = _SPACE.sub("", name)
        self._operators = {found.start(): found.end() for found in OPERATOR.finditer(self._text)}
        self._at = self._depth = 0

    def name(self, end: str = "") -> _Name:
        """The name up to its end, or up to one of the letters ``end`` outside of round brackets."""
        found: list[str | tuple[_Name, ...]] = []
        begin, round_brackets = self._at, 0
        while self._at < len(self._text):
            letter = self._text[self._at]
            if letter in end and not round_brackets:
                break
            if self._at in self._operators:
                self._at = self._operators[self._at]
            elif letter == "<":
                found += [self._text[begin : self._at], self._arguments()]
                begin = self._at
            else:
                round_brackets += (letter == "(") - (letter == ")")
                self._at += 1
        return (*found, self._text[begin : self._at])

    def _arguments(self) -> tuple[_Name, ...]:
        """The arguments of a template, at whose opening bracket the parser stands; it goes behind the closing one."""
        found = []
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _TooDeep
        while self._at < len(self._text) and self._text[self._at] != ">":
            self._at += 1
            found.append(self.name(",>"))
        self._at += 1
        self._depth -= 1
        return tuple(found)
