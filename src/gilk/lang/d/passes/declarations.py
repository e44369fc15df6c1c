# SPDX-License-Identifier: LGPL-2.1-or-later
"""A pass that declares what a text declares outside of its clauses, in the order of the text."""

from __future__ import annotations

from gilk.lang.d import items
from gilk.lang.d.passes.state import SharedNames
from gilk.lang.d.passes.values import ParsedText
from gilk.lang.syntax.source import Rejected


def run(unit: ParsedText, state: SharedNames) -> ParsedText:
    """Declare all items of a text. Raises Rejected."""
    state.expressions.locals.begin(())
    for item in unit.program.items:
        declare(item, unit.text.is_library, state, unit.program.is_included(item.span))
    return unit


def declare(item: items.Item, library: bool, state: SharedNames, included: bool = False) -> None:
    """Declare one item; ``included``: it is in a header of C. Raises Rejected."""
    state.scope.extent.begin()
    match item:
        case items.Declaration():
            state.expressions.declarations.declare(item, included)
        case items.Inline():
            state.expressions.inlines.define(item)
        case items.Pragma():
            state.pragmas.pragma(item, library)
        case items.Translator():
            state.expressions.translators.define(item)
        case items.ProviderDefinition():
            state.expressions.arguments.define(item)
        case items.Unreadable():
            wrong = item.diagnostic
            raise Rejected(wrong.tag, wrong.span, wrong.message, wrong.hint)
