# SPDX-License-Identifier: LGPL-2.1-or-later
"""A pass that finds the stability of inlines: that of the definition, unless a pragma states another."""

from __future__ import annotations

from gilk.lang.d import items
from gilk.lang.d.meaning.reliance import Reliance
from gilk.lang.d.passes.state import SharedNames
from gilk.lang.d.passes.values import ParsedText


def run(unit: ParsedText, state: SharedNames) -> ParsedText:
    """Note the stability of each inline of a text. Raises Rejected."""
    for item in unit.program.items:
        if isinstance(item, items.Inline):
            found = Reliance(state.scope, state.pragmas, state.inlines, state.least).of(item.value)
            state.inlines[item.declarator.name or ""] = found
    return unit
