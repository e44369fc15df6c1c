# SPDX-License-Identifier: LGPL-2.1-or-later
"""The cost of instruments on this machine."""

from __future__ import annotations

from gilk.runs.costs import known_costs, measured_costs
from gilk.trace.spent import HitCosts, Spent

__all__ = ["HitCosts", "Spent", "hit_costs", "known_costs", "measured_costs"]


def hit_costs() -> HitCosts:
    """The costs of instruments: those that are kept from earlier, or else measured now, which takes a second or two.
    Raises GilkError.
    """
    return known_costs() or measured_costs()
