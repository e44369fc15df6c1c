# SPDX-License-Identifier: LGPL-2.1-or-later
"""A pass that parses every text, up to its first mistake. Libraries come first, since the names of their types decide
how a text is parsed.
"""

from __future__ import annotations

from dataclasses import replace

from gilk.lang.d import items
from gilk.lang.d.macros import Macros
from gilk.lang.d.parser import parse
from gilk.lang.d.passes.state import Invocation
from gilk.lang.d.passes.values import DoesNotCompile, ParsedText, ProgramText, Units, Unread, Wrong
from gilk.lang.d.tags import SyntaxTag
from gilk.lang.syntax.source import Diagnostic, Span


def run(unread: Unread, state: Invocation) -> Units:
    """Parse all texts. Raises DoesNotCompile."""
    types: set[str] = set()
    libraries = []
    pspec = state.options.flag("pspec")
    for text in unread.libraries:
        libraries.append(_parsed(text, state.macros, types))
        types |= _typedefs(libraries[-1].program)
    return Units(tuple(libraries), tuple(_parsed(text, state.macros, types, pspec) for text in unread.texts))


def _parsed(text: ProgramText, macros: Macros, types: set[str], pspec: bool = False) -> ParsedText:
    if text.refused:
        wrong = Diagnostic(SyntaxTag.D_PDESC_INVAL, Span(0, 0), text.refused)
        raise DoesNotCompile(Wrong(text, text.source.name, 0, wrong))
    found = parse(text.source, replace(macros, argref=True), types, pspec, text.kind == "script")
    program = found.begun if found.program is None else found.program
    assert program is not None
    return ParsedText(text, program, found.used)


def _typedefs(program: items.ProgramSyntax) -> set[str]:
    """The names of types that the program declares."""
    declared = (item for item in program.items if isinstance(item, items.Declaration) and item.storage == "typedef")
    return {each.name for item in declared for each in item.declarators if each.name is not None}
