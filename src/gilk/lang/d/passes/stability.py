# SPDX-License-Identifier: LGPL-2.1-or-later
"""A pass that finds the stability of the names that a clause uses, and refuses a clause that is not stable enough (-x
amin).
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from gilk.lang.d.meaning import typed
from gilk.lang.d.meaning.reliance import Reliance
from gilk.lang.d.passes.state import SharedNames
from gilk.lang.d.probes import described
from gilk.lang.d.stability import USUAL, Attributes, of_provider


def run(clause: typed.Clause, state: SharedNames) -> typed.Clause:
    """The clause with the lowest stability of all that it uses, at any of its probes. Raises Rejected."""
    found = USUAL
    for probe in clause.probes:
        provider = of_provider(described(probe).provider, state.pragmas.providers)
        checked = Reliance(state.scope, state.pragmas, state.inlines, state.least, provider)
        parts = (each for each in (clause.item.predicate, clause.item.body) if each is not None)
        found = reduce(Attributes.lowest, map(checked.of, parts), found)
    return replace(clause, attributes=found)
