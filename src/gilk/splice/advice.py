# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice on calls, as machine code in patches: at a function's entry and where it returns (native/runtime/advice.h).

Both end a patch: the thread may leave it for the advice, and comes back behind it, or not at all. So at one point they
stand behind all other instruments.
"""

from __future__ import annotations

from gilk.arch import asm
from gilk.splice.code import CodeBuilder
from gilk.splice.frame import FLAGS, enter, frame_for, leave, scratch
from gilk.splice.host import Context, Host
from gilk.splice.instrument import Instrument
from gilk.values import dataclass

_EVERYTHING = FLAGS | (1 << 16) - 1
_SHOWN = 200  # struct gilk_block: advising.shown
_BELOW = 128  # bytes that native/host/advice.S expects below the stack pointer
_LEA_R11 = b"\x4c\x8d\x1d"  # lea r11, [rip + rel32]
_JAE32 = b"\x0f\x83"


@dataclass(frozen=True, slots=True)
class Advised:
    """``advice``: the address of its struct gilk_advice; ``thunk``: that of the runtime's way in."""

    advice: int
    thunk: int

    @property
    def reads(self) -> int:
        return _EVERYTHING

    def _leave(self, builder: CodeBuilder, end: int) -> None:
        """To the thunk, which goes on at the label ``end`` with everything as it is here."""
        builder.emit(asm.lea_stack(asm.RSP, -_BELOW) + asm.push(asm.R11))
        builder.local(_LEA_R11, end)
        builder.emit(asm.push(asm.R11))
        builder.external(_LEA_R11, self.advice)
        builder.external(asm.JMP32, self.thunk)


@dataclass(frozen=True, slots=True)
class AdvisedEntry(Advised):
    """At the entry of a function that has advice."""

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        end = builder.label()
        self._leave(builder, end)
        builder.place(end)


@dataclass(frozen=True, slots=True)
class AdvisedReturn(Advised):
    """In front of a return: for a call that is not the newest with advice, one comparison."""

    def emit(self, builder: CodeBuilder, host: Host, context: Context) -> None:
        flags = bool(context.live & FLAGS)
        reg = scratch(context.live, 1 << asm.RSP | (1 << asm.RAX if flags else 0))
        frame = frame_for(context.live, 1 << reg | FLAGS, red_zone=host.red_zone)
        candidate, end = builder.label(), builder.label()
        enter(builder, frame)
        builder.emit(asm.lea_stack(reg, frame.size) + asm.cmp_gs(reg, _SHOWN))
        builder.local(_JAE32, candidate)
        leave(builder, frame)
        builder.place(end)

        def look() -> None:
            builder.place(candidate)
            leave(builder, frame)
            self._leave(builder, end)

        builder.cold(look)


def last(instruments: list[Instrument]) -> list[Instrument]:
    """The same with advice behind all others."""
    return sorted(instruments, key=lambda each: isinstance(each, Advised))
