# SPDX-License-Identifier: LGPL-2.1-or-later
"""How every point of a kernel would be spliced, by arithmetic on whole arrays: the table of tactics, for all at once.

Jumps, calls, fentry and refusals come out as the planner decides them. Where a block is too short, a bounce is taken to
be possible when there is any room for its jump within reach: which of several points gets which room, and what a copy
could still rescue, is for the planner, one function at a time. tests/kernel says how near that is.
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
    """The outcomes at all blocks of a kernel. ``pre`` and ``post`` are columns of OUTCOMES, one a block."""

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
        """Whether, in each function, a jump of unknown target may lead anywhere."""
        return self._cuts.strict


def _decided(points: KernelStretches) -> Columns:
    """Round by round, as the planner does."""
    found = points.refused.copy()
    for number, rows in enumerate(rounds(KERNEL)):
        for row in rows:
            _try(points, row, found, found == NONE)
        if not number:
            lending = [OUTCOMES.index(tactic.name) for tactic in TACTICS.values() if tactic.lends]
            points.lenders = np.isin(found, lending)
    return found


def _try(points: KernelStretches, row: Row, found: Columns, left: Flags) -> None:
    """Has a tactic take what it can of ``left``."""
    which = np.flatnonzero(left)
    found[which[row.tactic.among(points, which, row.effort)]] = OUTCOMES.index(row.tactic.name)
