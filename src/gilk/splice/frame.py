# SPDX-License-Identifier: LGPL-2.1-or-later
"""The registers that a patch must save around an instrument, and the code that does it.

Only registers that are both needed and live are saved, beyond the 128-byte
red zone below the stack pointer (System V ABI x86-64, 3.2.2). Flags are saved
only when live, by ``lahf`` and ``seto``: sign, zero, carry, parity, adjust and
overflow are all that code between two instructions can depend on.
"""

from __future__ import annotations

from gilk.arch import asm
from gilk.splice.code import CodeBuilder
from gilk.values import dataclass

RED_ZONE = 128
FLAGS = 1 << 16
#: A bit among those of live registers: the direction flag may be set. C wants it clear (System V ABI x86-64, 3.2.1).
DIRECTION = 1 << 17

#: Scratch registers in order of preference: first those with short encodings that do not hold arguments.
_PREFERENCE = (11, 10, 0, 9, 8, 1, 2, 6, 7, 3, 12, 13, 14, 15, 5)


@dataclass(frozen=True, slots=True)
class Frame:
    """The registers that a patch saves, at ``[rsp + 8 * index]`` once the stack pointer has moved down by ``size``.
    ``flags``: the flags are saved, too, behind the registers.
    """

    saved: tuple[int, ...]
    flags: bool
    size: int

    def slot(self, reg: int) -> int:
        return 8 * self.saved.index(reg)

    @property
    def flags_slot(self) -> int:
        return 8 * len(self.saved)


def scratch(live: int, avoid: int = 0) -> int:
    """A register that may be overwritten, a dead one if there is any, and none of ``avoid``. rsp is never returned."""
    for reg in _PREFERENCE:
        if not (live | avoid) >> reg & 1:
            return reg
    return next(reg for reg in _PREFERENCE if not avoid >> reg & 1)


def frame_for(live: int, clobbered: int, always: int = 0, red_zone: int = RED_ZONE) -> Frame:
    """The frame that saves the live registers and flags among ``clobbered`` (register bits and FLAGS), and the
    registers ``always``, ``red_zone`` bytes below the stack pointer.

    Saving flags needs rax, so rax counts as clobbered then.
    """
    flags = bool(live & clobbered & FLAGS)
    if flags:
        clobbered |= 1 << asm.RAX
    saved = tuple(reg for reg in range(16) if ((live & clobbered) | always) >> reg & 1)
    words = len(saved) + flags
    return Frame(saved, flags, red_zone + 8 * words if words else 0)


def enter_c(builder: CodeBuilder, live: int) -> None:
    """Append the code that must run right before C is called; ``leave_c`` appends that for right behind the call. The
    bytes below the stack pointer must be free.
    """
    if live & DIRECTION:
        builder.emit(asm.PUSHF + asm.CLD)


def leave_c(builder: CodeBuilder, live: int) -> None:
    if live & DIRECTION:
        builder.emit(asm.POPF)


def enter(builder: CodeBuilder, frame: Frame) -> None:
    if not frame.size:
        return
    builder.emit(asm.lea_stack(asm.RSP, -frame.size))
    for reg in frame.saved:
        builder.emit(asm.store_stack(reg, frame.slot(reg)))
    if frame.flags:
        builder.emit(asm.LAHF + asm.SETO_AL + asm.store_stack(asm.RAX, frame.flags_slot))


def leave(builder: CodeBuilder, frame: Frame) -> None:
    if not frame.size:
        return
    if frame.flags:
        builder.emit(asm.load_stack(asm.RAX, frame.flags_slot) + asm.ADD_AL_127 + asm.SAHF)
    for reg in frame.saved:
        builder.emit(asm.load_stack(reg, frame.slot(reg)))
    builder.emit(asm.lea_stack(asm.RSP, frame.size))
