# SPDX-License-Identifier: LGPL-2.1-or-later
"""The trap tactic: int3. One byte always suffices, but each hit costs an exception, and something must catch it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gilk.arch.asm import INT3
from gilk.splice.kernel_unit import Unit, UnitKind, Windows
from gilk.splice.patch_context import PatchContext
from gilk.splice.plan import Splice
from gilk.splice.policy import Policy
from gilk.splice.segments import Segment
from gilk.splice.tactics.tactic import Choice, Choices, Effort, Lead, Tactic

if TYPE_CHECKING:
    from gilk.splice.tactics.tactic import Flags, Rows, Stretches


class TrapTactic(Tactic):
    name, number = "trap", 6

    def allowed(self, policy: Policy, effort: Effort) -> bool:
        return policy.catches_int3

    def propose(self, choices: Choices, segment: Segment, first: int, last: int, effort: Effort) -> Choice | None:
        """A choice with the int3 at the first instruction that must run in the patch."""
        return choices.window(segment, self, first, last, len(INT3))

    def lead(self, choice: Choice, patch: int, context: PatchContext) -> Lead:
        return Lead(context.site(choice.start, INT3))

    def units(self, splice: Splice, windows: Windows) -> Iterator[Unit]:
        code, _ = windows.code(splice)
        yield Unit(UnitKind.TRAP, splice.window.address, code, splice.window.new + code[1:], splice.patch)

    def among(self, stretches: Stretches, which: Rows, effort: Effort) -> Flags:
        return which >= 0  # every stretch has one byte


TRAP: Final = TrapTactic()
