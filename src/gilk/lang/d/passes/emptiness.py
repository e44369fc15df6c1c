# SPDX-License-Identifier: LGPL-2.1-or-later
"""A pass that refuses a program without any items but pragmas, unless the option empty allows it."""

from __future__ import annotations

from gilk.lang.d import items
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.d.passes.state import SharedNames
from gilk.lang.d.passes.values import ParsedText
from gilk.lang.syntax.source import Rejected, Span


def run(unit: ParsedText, state: SharedNames) -> ParsedText:
    """Raises Rejected if the program is empty."""
    if unit.text.is_library or state.empty or any(not isinstance(each, items.Pragma) for each in unit.program.items):
        return unit
    end = len(unit.text.source.text)
    raise Rejected(Tag.D_EMPTY, Span(end, end), "empty D program translation unit")
