# SPDX-License-Identifier: LGPL-2.1-or-later
"""A pass that refuses a last argument of the command line that no program uses, as DTrace does."""

from __future__ import annotations

from gilk.lang.d.passes.state import Invocation
from gilk.lang.d.passes.values import DoesNotCompile, Units, Wrong
from gilk.lang.d.tags import SyntaxTag
from gilk.lang.syntax.source import Diagnostic, Span


def run(units: Units, state: Invocation) -> Units:
    """Raises DoesNotCompile. Texts with a syntax error are left alone, since they may use the argument after it; a
    later pass refuses them.
    """
    if any(unit.program.mistake for unit in (*units.libraries, *units.programs)):
        return units
    given = state.macros.arguments
    used = frozenset[int]().union(*(unit.used for unit in units.programs))
    last = len(given) - 1
    if last > 0 and last not in used and units.programs and not state.macros.argref:
        what = f"extraneous argument '{given[last]}' (${last} is not referenced)"
        text = units.programs[0].text
        raise DoesNotCompile(Wrong(text, text.source.name, 0, Diagnostic(SyntaxTag.D_MACRO_UNUSED, Span(0, 0), what)))
    return units
