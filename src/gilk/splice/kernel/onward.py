# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instruments of calls that are timed and go on in other functions, for the kernel (native/ilk/onward.c). Entries have
none: no function of the kernel is left but by its return."""

from __future__ import annotations

from gilk.analysis.model import EVERYTHING
from gilk.arch import asm
from gilk.splice.code import CodeBuilder
from gilk.splice.frame import FLAGS
from gilk.splice.host import Context, Host
from gilk.splice.instrument import Instrument
from gilk.splice.kernel.frame import enter, kept, leave, scratch
from gilk.splice.kernel.instrument import KernelCallWithRegisters
from gilk.splice.onward import FACTOR, HASH_BITS, ComesLast
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class KernelNotesJump(KernelCallWithRegisters, ComesLast):
    """The instrument in front of a jump by which a timed call goes on: it makes a note."""


@dataclass(frozen=True, slots=True)
class KernelLooksForNotes:
    """An instrument that calls the driver by ``call`` if there may be notes of the frame, and else is ``otherwise``.
    ``table``: the address of the notes."""

    table: int
    call: KernelCallWithRegisters
    otherwise: Instrument | None = None

    @property
    def reads(self) -> int:
        return EVERYTHING

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        reg = scratch(context.live, 1 << asm.RSP | 1 << asm.R12 | 1 << asm.RAX)
        frame = kept(context.live, 1 << reg | FLAGS)
        found, end = builder.label(), builder.label()
        enter(builder, frame)
        builder.emit(asm.lea_stack(reg, frame.depth + context.pushed))
        builder.emit(asm.multiply_immediate(reg, FACTOR) + asm.shift_right(reg, 32 - HASH_BITS))
        builder.emit(asm.cmp_byte_zero(reg, self.table - (1 << 64)))
        builder.local(asm.JNE32, found)
        leave(builder, frame)
        if self.otherwise is not None:
            self.otherwise.emit(builder, host, context)
        builder.place(end)

        def call() -> None:
            builder.place(found)
            leave(builder, frame)
            self.call.emit(builder, host, context)
            builder.local(asm.JMP32, end)

        builder.cold(call)


@dataclass(frozen=True, slots=True)
class KernelReturnsFromAll(KernelLooksForNotes, ComesLast):
    """The instrument in front of a return of a function that such jumps lead to."""
