# SPDX-License-Identifier: LGPL-2.1-or-later
"""Five bytes, to the patch: a jump costs about a nanosecond, wherever five bytes can be moved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gilk.arch.asm import JUMP_SIZE
from gilk.splice.kernel_unit import Unit, UnitKind, Windows, filled
from gilk.splice.patch_context import PatchContext
from gilk.splice.plan import Splice
from gilk.splice.segments import Segment
from gilk.splice.tactics.tactic import Choice, Choices, Effort, Lead, Tactic

if TYPE_CHECKING:
    from gilk.splice.tactics.tactic import Flags, Rows, Stretches


class JumpTactic(Tactic):
    name, number = "jump", 0
    lends = True

    def propose(self, choices: Choices, segment: Segment, first: int, last: int, effort: Effort) -> Choice | None:
        """As near before what is wanted as may be, if no call has to be moved then; anywhere if one has to be in any
        case."""
        dear = None
        for index in range(first, -1, -1):
            choice = self.at(choices, segment, index, last)
            if choice and not (segment.calls and choice.moves_call):
                return choice
            dear = dear or choice
        return None if effort is Effort.CHEAP else dear

    def at(self, choices: Choices, segment: Segment, first: int, last: int) -> Choice | None:
        """One that begins with the step ``first``."""
        if segment.heads[first] + JUMP_SIZE > segment.room:
            return None
        return choices.window(segment, self, first, last, JUMP_SIZE)

    def lead(self, choice: Choice, patch: int, context: PatchContext) -> Lead:
        return Lead(context.jump(choice.start, patch))

    def units(self, splice: Splice, windows: Windows) -> Iterator[Unit]:
        code, several = windows.code(splice)
        kind = UnitKind.MULTI if several else UnitKind.SINGLE
        yield Unit(kind, splice.window.address, code, filled(splice.window.new, code), splice.patch, splice.copy)

    def among(self, stretches: Stretches, which: Rows, effort: Effort) -> Flags:
        start = stretches.start(which, JUMP_SIZE)
        fits = stretches.fits(which, start, JUMP_SIZE)
        if effort is not Effort.CHEAP:
            return fits
        dear = stretches.returns[which] & (stretches.covering(start, JUMP_SIZE) >= stretches.high[which])
        return fits & ~dear


JUMP: Final = JumpTactic()
