# SPDX-License-Identifier: LGPL-2.1-or-later
"""A pass that has a clause run on one processor only, if the option cpu names one."""

from __future__ import annotations

from dataclasses import replace

from gilk.lang import ir
from gilk.lang.d import tree
from gilk.lang.d.passes.state import SharedNames
from gilk.lang.d.probes import fires_alone
from gilk.lang.types import INT


def run(clause: tree.Clause, state: SharedNames) -> tree.Clause:
    """The clause, which does nothing at a probe that fires on another processor. Those that fire once, and not on each
    processor, fire there anyway."""
    if state.processor is None or all(map(fires_alone, clause.probes)):
        return clause
    there: ir.Expression = ir.Binary(INT, "==", ir.Call(INT, "cpu"), ir.Constant(INT, state.processor))
    guard = clause.function.guard
    there = there if guard is None else ir.Binary(INT, "&&", there, guard)
    return replace(clause, function=replace(clause.function, guard=there))
