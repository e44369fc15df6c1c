# SPDX-License-Identifier: LGPL-2.1-or-later
"""How a change of code is made: by exchanging it for copies (copies.py), by writing, or by both.

Writes go to the code that is executed and to the other one alike. So three kinds of units are told apart: those in
force in both or in neither, and those that only the copies have, which are the ones exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from gilk.targets.copies import Copy, Units
from gilk.values import dataclass


@dataclass(frozen=True)
class Steps:
    """Whether copies and originals are exchanged, and what is written after that."""

    exchange: bool
    remove: Units
    add: Units


@dataclass
class Exchanged:
    """``only_copied``: the units that are in the copies and not in the originals."""

    only_copied: Units = field(default_factory=dict)

    def steps(self, copies: Sequence[Copy], active: Units, remove: Units, add: Units) -> Steps:
        """An exchange, where that does most of it. ``active``: what is in force before."""
        in_force = any(copy.in_force for copy in copies)
        left = {n: active[n] & units - remove.get(n, set()) for n, units in self.only_copied.items()}
        wanted = sum(len(units & self.only_copied.get(n, set())) for n, units in add.items())
        if in_force and not any(left.values()):
            return Steps(True, _minus(remove, self.only_copied), add)
        if not in_force and wanted and 2 * wanted >= sum(len(units) for units in self.only_copied.values()):
            return Steps(True, _plus(remove, _minus(self.only_copied, add)), _minus(add, self.only_copied))
        return Steps(False, remove, add)

    def more(self, units: Units) -> None:
        """These are in the copies, too, from now on."""
        self.only_copied = _plus(self.only_copied, units)

    def less(self, units: Units) -> Units:
        """None of these is any more; those that were."""
        gone = {n: found for n, some in units.items() if (found := some & self.only_copied.get(n, set()))}
        self.only_copied = _minus(self.only_copied, gone)
        return gone

    def made(self, copies: Sequence[Copy], steps: Steps) -> None:
        """The steps were taken; ``copies`` as they are now."""
        in_force = any(copy.in_force for copy in copies)
        self.only_copied = _minus(self.only_copied, steps.remove if in_force else steps.add)


def _minus(units: Units, others: Units) -> Units:
    return {n: some - others.get(n, set()) for n, some in units.items()}


def _plus(units: Units, others: Units) -> Units:
    return {n: units.get(n, set()) | others.get(n, set()) for n in (*units, *(others.keys() - units.keys()))}
