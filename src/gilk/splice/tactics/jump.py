# SPDX-License-Identifier: LGPL-2.1-or-later
"""The jump tactic: five bytes that jump to the patch. It costs about a nanosecond, wherever five bytes can be moved."""

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
        """A jump as near before the first wanted step as possible that moves no call. With more than the least effort,
        a jump that moves a call will do.
        """
        dear = None
        for index in range(first, -1, -1):
            choice = self.at(choices, segment, index, last)
            if choice and not (segment.calls and choice.moves_call):
                return choice
            dear = dear or choice
        return None if effort is Effort.CHEAP else dear

    def at(self, choices: Choices, segment: Segment, first: int, last: int) -> Choice | None:
        """The choice of a jump that begins at the step ``first``; None if it is impossible."""
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
