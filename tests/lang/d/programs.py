# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions that tests of the parser share: parsing a text, and comparing trees without their places."""

from __future__ import annotations

from pathlib import Path

from gilk.lang.d import ast, items
from gilk.lang.d.macros import Macros
from gilk.lang.d.parser import Parsed, parse
from gilk.lang.syntax.source import Source, Span

HERE = Path(__file__).parent
SCRIPTS = sorted(HERE.glob("scripts/*.d"))
GIVEN = Macros({"target": 1234, "pid": 99, "ppid": 98, "uid": 0}, ("script", "5", "1000", "some text"), argref=True)


def parsed(text: str, macros: Macros = GIVEN) -> Parsed:
    return parse(Source("test", text), macros)


def program(text: str, macros: Macros = GIVEN) -> items.ProgramSyntax:
    found = parsed(text, macros)
    assert found.program is not None, found.diagnostics
    return found.program


def plain(value: object) -> object:
    """A tree as tuples, without its spans."""
    if isinstance(value, ast.Node):
        parts = (getattr(value, name) for name in type(value).__slots__)
        return (type(value).__name__, *(plain(part) for part in parts if not isinstance(part, Span)))
    return tuple(plain(one) for one in value) if isinstance(value, tuple) else value
