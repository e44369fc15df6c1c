# SPDX-License-Identifier: LGPL-2.1-or-later
"""The call tactic: a call in the program is made to call the patch, which goes on to the callee. Nothing is displaced,
and returns stay predicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gilk.arch.asm import CALL32, CALL_SIZE
from gilk.image.model import Image
from gilk.splice.code import CodeBuilder, PatchCode
from gilk.splice.emit import RETURN_ADDRESS, emit_instruments
from gilk.splice.host import Host
from gilk.splice.kernel_unit import Unit, UnitKind, Windows
from gilk.splice.patch_context import PatchContext
from gilk.splice.plan import Splice
from gilk.splice.puns import IDLE_PREFIX
from gilk.splice.relocate import jump_of_call, transfer
from gilk.splice.segments import Segment, is_call
from gilk.splice.tactics.tactic import Choice, Choices, Effort, Lead, Tactic

if TYPE_CHECKING:
    from gilk.splice.tactics.tactic import Flags, Rows, Stretches


class CallTactic(Tactic):
    """The tactic. It is not ``linked``, because its patch expects the return address on the stack."""

    name, number = "call", 1
    linked = False

    def propose(self, choices: Choices, segment: Segment, first: int, last: int, effort: Effort) -> Choice | None:
        """A choice for a segment whose last step is a call and the only step that is wanted; None otherwise."""
        if first != len(segment.steps) - 1 or first not in segment.before or not is_call(segment.steps[first]):
            return None
        start, end = segment.heads[first], segment.heads[first + 1]
        if end - start < CALL_SIZE or len(segment.before) > 1 or segment.fast <= first:
            return None
        if end - start > CALL_SIZE and not choices.layout.policy.idle_prefixes:
            return None
        if not choices.writable(start, end) or choices.layout.entered_between(start + 1, end):
            return None
        return Choice(segment, self, first, first, end - start)

    def code(self, choice: Choice, image: Image, bias: int, host: Host) -> PatchCode:
        """The patch: the instruments, and a jump to the callee. The return address is on the stack already."""
        builder = CodeBuilder()
        step = choice.segment.steps[choice.first]
        instruction = step.instruction
        raw = image.read(instruction.ip, instruction.len)
        jump = jump_of_call(instruction, raw)
        wants = choice.segment.before[choice.first]
        emit_instruments(builder, host, wants, step.live, instruction.ip + bias, RETURN_ADDRESS)
        transfer(builder, instruction, jump, bias)
        return builder.finish()

    def lead(self, choice: Choice, patch: int, context: PatchContext) -> Lead:
        """The window. A call that is longer than five bytes is filled up with prefixes that mean nothing."""
        start, prefix = choice.start, IDLE_PREFIX * (choice.window - CALL_SIZE)
        return Lead(context.site(start, prefix + context.relative(CALL32, start + len(prefix), patch)))

    def units(self, splice: Splice, windows: Windows) -> Iterator[Unit]:
        """A single unit without a copy: a CPU that comes by while the unit is taken out calls the callee itself."""
        address, old, new = splice.window
        yield Unit(UnitKind.SINGLE, address, old, new, splice.patch)

    def among(self, stretches: Stretches, which: Rows, effort: Effort) -> Flags:
        return stretches.single_call(CALL_SIZE)[which]


CALL: Final = CallTactic()
