# SPDX-License-Identifier: LGPL-2.1-or-later
"""The analysis of an image for plans without code: all registers and flags are taken to be live everywhere.

Only the code of a patch depends on which are live; where splices are, and of which tactic, does not.
"""

from __future__ import annotations

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import EVERYTHING, Block, Function, LiveInstruction
from gilk.arch.decode import decode


class WithoutLiveness(Analysis):
    def steps(self, function: Function, block: Block) -> tuple[LiveInstruction, ...]:
        start, end = block.start - function.start, block.end - function.start
        found = decode(function.code[start:end], block.start)
        return tuple([LiveInstruction(instruction, EVERYTHING) for instruction in found])

    def live_after(self, function: Function, block: Block) -> int:
        return EVERYTHING
