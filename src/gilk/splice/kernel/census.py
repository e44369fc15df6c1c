# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counts how every point of a kernel would be spliced, by arithmetic on whole arrays: the table of tactics for all
points at once.

Jumps, calls, fentry and refusals come out as the planner decides them. In a block that is too short, a bounce counts as
possible if there is any room for its jump within reach: only the planner, which looks at one function at a time,
decides which of several points gets which room, and what a copy could still rescue. tests/kernel says how near the
figures are.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gilk.splice.kernel.blocks import Blocks, Flags, Instructions
from gilk.splice.kernel.stretches import NONE, Columns, Cuts, KernelStretches
from gilk.splice.policy import KERNEL
from gilk.splice.tactics.table import OUTCOMES, TACTICS, entries, rounds
from gilk.splice.tactics.tactic import Row
from gilk.values import dataclass


@dataclass(frozen=True)
class Census:
    """The outcomes at all blocks of a kernel. ``pre`` and ``post`` have for each block an index into OUTCOMES."""

    code: Instructions
    blocks: Blocks

    @cached_property
    def pre(self) -> Columns:
        points = self._cuts.before()
        found = _decided(points)
        last = [OUTCOMES.index(row.tactic.name) for row in rounds(KERNEL)[-1]]
        bad = np.isin(found, last) | (points.refused != NONE)
        for row in entries():
            _try(points, row, found, bad)
        return found

    @cached_property
    def post(self) -> Columns:
        return _decided(self._cuts.after())

    @cached_property
    def _cuts(self) -> Cuts:
        return Cuts(self.code, self.blocks)

    @property
    def strict(self) -> Flags:
        """Whether each function has a jump of unknown target, which may lead anywhere in it."""
        return self._cuts.strict


def _decided(points: KernelStretches) -> Columns:
    """The outcome of each point, decided round by round as the planner does."""
    found = points.refused.copy()
    for number, rows in enumerate(rounds(KERNEL)):
        for row in rows:
            _try(points, row, found, found == NONE)
        if not number:
            lending = [OUTCOMES.index(tactic.name) for tactic in TACTICS.values() if tactic.lends]
            points.lenders = np.isin(found, lending)
    return found


def _try(points: KernelStretches, row: Row, found: Columns, left: Flags) -> None:
    """Set the outcome of the points among ``left`` that the tactic of ``row`` can splice."""
    which = np.flatnonzero(left)
    found[which[row.tactic.among(points, which, row.effort)]] = OUTCOMES.index(row.tactic.name)
