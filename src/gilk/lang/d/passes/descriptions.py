# SPDX-License-Identifier: LGPL-2.1-or-later
"""A pass that refuses a clause whose descriptions name what is not stable enough (-x amin)."""

from __future__ import annotations

from gilk.lang.d import items
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.d.passes.state import SharedNames
from gilk.lang.d.probes import described
from gilk.lang.d.stability import of_provider
from gilk.lang.syntax.source import Rejected, Span


def run(clause: items.Clause, state: SharedNames) -> items.Clause:
    """The clause itself. Raises Rejected."""
    least = state.least
    for probe in clause.probes:
        description = described(probe.text)
        found = of_provider(description.provider, state.pragmas.providers).of(description)
        if least is not None and found.below(least):
            what = f"attributes for clause ({found}) are less than predefined minimum"
            end = clause.span.end  # where a clause has its line, for DTrace
            raise Rejected(Tag.D_ATTR_MIN, Span(end - 1, end), what)
    return clause
