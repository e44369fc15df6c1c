# SPDX-License-Identifier: LGPL-2.1-or-later
"""The analysis of an image for plans without code: all registers and flags are taken to be live everywhere.

Only the code of a patch depends on which are live; where splices are, and of which tactic, does not.
"""

from __future__ import annotations

from gilk.analysis.analysis import Analysis
from gilk.analysis.liveness import all_live
from gilk.analysis.model import EVERYTHING, Block, Function, LiveInstruction


class WithoutLiveness(Analysis):
    def steps(self, function: Function, block: Block) -> tuple[LiveInstruction, ...]:
        return all_live(function, block)

    def live_after(self, function: Function, block: Block) -> int:
        return EVERYTHING
