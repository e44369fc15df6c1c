# SPDX-License-Identifier: LGPL-2.1-or-later
"""A pass that refuses a pragma about a name that its text never declares."""

from __future__ import annotations

from gilk.lang.d.passes.state import SharedNames
from gilk.lang.d.passes.values import ParsedText


def run(unit: ParsedText, state: SharedNames) -> ParsedText:
    """Raises Rejected if a name was not declared."""
    state.pragmas.finish(unit.library)
    return unit
