# SPDX-License-Identifier: LGPL-2.1-or-later
"""The fentry tactic: ftrace's call at the entry of a kernel function calls the patch, if no jump fits behind that call.

It is as quick as a jump, but costs a registration for each function.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gilk.analysis.model import EVERYTHING, Function
from gilk.arch import asm
from gilk.splice.code import CodeBuilder
from gilk.splice.emit import RETURN_ADDRESS, emit_instruments
from gilk.splice.kernel_unit import Unit, UnitKind, Windows
from gilk.splice.patch_context import PatchContext
from gilk.splice.plan import Equivalence, FunctionPlan, Patch, Refusal, Site, Splice, Want, heeds_live
from gilk.splice.policy import Policy
from gilk.splice.tactics.tactic import Effort, Tactic

if TYPE_CHECKING:
    from gilk.splice.tactics.tactic import Flags, Rows, Stretches

_FARTHEST = 4  # an endbr64 may come first


class FentryTactic(Tactic):
    """The tactic. It does not splice segments: it leads all that is wanted at an entry to one patch that displaces
    nothing.
    """

    name, number = "fentry", 5

    def allowed(self, policy: Policy, effort: Effort) -> bool:
        return False

    def call_of(self, context: PatchContext, function: Function) -> int:
        """The link-time address of ftrace's call at the function's entry; 0 if there is none."""
        start = function.start
        for low, high, reason in context.reserved(start, start + _FARTHEST + 1):
            if reason == Refusal.FENTRY and start <= low <= start + _FARTHEST and high - low == asm.CALL_SIZE:
                return low
        return 0

    def add(self, context: PatchContext, function: Function, wants: list[Want], made: FunctionPlan) -> FunctionPlan:
        """The plan ``made`` with a patch added that ftrace calls. Raises OutOfSpace."""
        builder = CodeBuilder()
        address = self.call_of(context, function) + context.bias
        live = context.analysis.steps(function, function.blocks[0])[0].live if heeds_live(wants) else EVERYTHING
        builder.mark(address, True)
        emit_instruments(builder, context.host, wants, live, address, RETURN_ADDRESS)
        builder.emit(asm.RET + asm.INT3)
        code = builder.finish()
        patch = context.arena.allocate(len(code.data))
        return replace(
            made,
            patches=(*made.patches, Patch(patch, code.placed(patch, {}))),
            splices=(*made.splices, Splice(self.name, patch, Site(address, b"", b""))),
            equivalences=(*made.equivalences, Equivalence(patch, address, True)),
            tactics={**made.tactics, **dict.fromkeys((want.key for want in wants), self.name)},
            patched={**made.patched, **dict.fromkeys((want.key for want in wants), patch)},
        )

    def units(self, splice: Splice, windows: Windows) -> Iterator[Unit]:
        """A unit with unchanged code: the driver compares ftrace's call, and does not write it."""
        code = windows.read(splice.window.address, asm.CALL_SIZE)
        yield Unit(UnitKind.FENTRY, splice.window.address, code, code, splice.patch)

    def among(self, stretches: Stretches, which: Rows, effort: Effort) -> Flags:
        return stretches.traced[which]


FENTRY: Final = FentryTactic()
