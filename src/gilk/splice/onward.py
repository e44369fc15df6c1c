# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instruments of calls that are timed and go on in other functions (native/abi/gilk_onward.h): in front of the jumps,
at the entries to which these lead, and in front of the returns.

All but the one that makes a note look at one byte, and go on if no note can be about their frame.
"""

from __future__ import annotations

from collections.abc import Sequence

from iced_x86 import Instruction

from gilk.analysis.model import EVERYTHING
from gilk.arch import asm
from gilk.splice.code import CodeBuilder
from gilk.splice.frame import FLAGS, enter, frame_for, leave, scratch
from gilk.splice.host import Context, Host
from gilk.splice.instrument import CallWithRegisters, Instrument
from gilk.values import dataclass

#: gilk_onward_hash(): the high bits of the product are the hash.
FACTOR, HASH_BITS = 0x9E3779B1, 14
#: The table of notes, struct gilk_onward: where the serial numbers of clients lie, how many there are, and its size.
SERIALS_AT, CLIENTS = 1 << HASH_BITS, 128
SIZE = SERIALS_AT + 4 * CLIENTS + 32 * ((1 << HASH_BITS) + 16)


def condition_of(jump: Instruction) -> int | None:
    """The condition code of a conditional jump, as its opcode has it; None if it is another instruction."""
    return int(jump.condition_code) - 1 if jump.is_jcc_short_or_near else None


@dataclass(frozen=True, slots=True)
class IfItJumps:
    """An instrument in front of a conditional jump that runs only where the jump will be taken."""

    condition: int
    made: Instrument

    @property
    def reads(self) -> int:
        return self.made.reads | FLAGS

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        stays = builder.label()
        builder.local(asm.jump_unless(self.condition), stays)
        self.made.emit(builder, host, context)
        builder.place(stays)


class ComesFirst:
    """An instrument that runs before all others of its point."""

    __slots__ = ()


class ComesLast:
    """An instrument that runs behind all others of its point."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class NotesJump(CallWithRegisters, ComesLast):
    """The instrument in front of a jump by which a timed call goes on: it makes a note."""


@dataclass(frozen=True, slots=True)
class LooksForNotes:
    """An instrument that calls ``function`` of the runtime if there may be notes of the frame. ``table``: the address
    of the word that has the address of the notes."""

    table: int
    function: int
    number: int = 0

    @property
    def reads(self) -> int:
        return EVERYTHING

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        end = builder.label()
        self.look(builder, host, context, end)
        builder.place(end)

    def look(self, builder: CodeBuilder, host: Host, context: Context, end: int) -> None:
        """Append the look; where it finds something, the function is called, and control comes to the label ``end``."""
        flags = bool(context.live & FLAGS)
        reg = scratch(context.live, 1 << asm.RSP | 1 << asm.R12 | (1 << asm.RAX if flags else 0))
        frame = frame_for(context.live, 1 << reg | FLAGS, red_zone=host.red_zone)
        found = builder.label()
        enter(builder, frame)
        builder.emit(asm.lea_stack(reg, frame.size + context.pushed))
        builder.emit(asm.multiply_immediate(reg, FACTOR) + asm.shift_right(reg, 32 - HASH_BITS))
        builder.external(asm.add_rip(reg), self.table)
        builder.emit(asm.cmp_byte_zero(reg))
        builder.local(asm.JNE32, found)
        leave(builder, frame)

        def call() -> None:
            builder.place(found)
            leave(builder, frame)
            CallWithRegisters(self.function, self.number, calls_out=False).emit(builder, host, context)
            builder.local(asm.JMP32, end)

        builder.cold(call)


@dataclass(frozen=True, slots=True)
class PassesOn(LooksForNotes, ComesLast):
    """The instrument in front of a jump of another function than the timed one."""


@dataclass(frozen=True, slots=True)
class EntersAnew(LooksForNotes, ComesFirst):
    """The instrument at the entry of a function that such jumps lead to, or that makes them."""


@dataclass(frozen=True, slots=True)
class ReturnsFromAll(LooksForNotes, ComesLast):
    """The instrument in front of a return of a function that such jumps lead to."""


@dataclass(frozen=True, slots=True)
class BeginsOnce:
    """The instrument at the entry of a timed function that its own call may come back to: it is ``otherwise``, unless
    that has happened. ``looks``: calls the function of the runtime that does the rest where there is a note."""

    looks: LooksForNotes
    otherwise: Instrument

    @property
    def reads(self) -> int:
        return self.looks.reads

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        end = builder.label()
        self.looks.look(builder, host, context, end)
        self.otherwise.emit(builder, host, context)
        builder.place(end)


#: The kinds by what the runtime's functions are called.
FUNCTIONS: dict[type[LooksForNotes], str] = {
    PassesOn: "gilk_onward_passes",
    EntersAnew: "gilk_onward_enters",
    ReturnsFromAll: "gilk_onward_returns",
}


def in_order(instruments: Sequence[Instrument]) -> list[Instrument]:
    """The instruments of one point, in the order in which they have to run: notes of calls that are over are dropped
    first; a jump, or a return of the calls that have come here by jumps, comes after all else."""
    return sorted(instruments, key=_rank)


def _rank(instrument: Instrument) -> int:
    made = instrument.made if isinstance(instrument, IfItJumps) else instrument
    return int(isinstance(made, ComesLast)) - isinstance(made, ComesFirst)
