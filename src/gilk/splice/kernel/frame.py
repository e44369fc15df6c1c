# SPDX-License-Identifier: LGPL-2.1-or-later
"""The registers and flags that a patch in the kernel saves around an instrument.

There is no red zone: an interrupt may overwrite anything below the stack pointer at any time. So words are pushed,
which moves the stack pointer first. Flags are saved only if they are live, by ``lahf`` and ``seto`` (see
splice/frame.py).
"""

from __future__ import annotations

from gilk.arch import asm
from gilk.splice.code import CodeBuilder
from gilk.splice.frame import FLAGS
from gilk.values import dataclass

WORD = 8
RAX_BIT, RDX_BIT = 1 << asm.RAX, 1 << asm.RDX
#: Registers that are never used: the stack pointer, and r12, which needs another byte as a base.
_UNFIT = 1 << asm.RSP | 1 << asm.R12
#: Scratch registers in order of preference: first those with short encodings that do not hold arguments.
_PREFERENCE = (11, 10, 0, 9, 8, 1, 2, 6, 7, 3, 13, 14, 15, 5)


@dataclass(frozen=True, slots=True)
class Kept:
    """The saved registers, in the order in which they are pushed, and whether ``flags`` are pushed after them."""

    registers: tuple[int, ...]
    flags: bool

    @property
    def depth(self) -> int:
        """The number of bytes by which the stack pointer moves."""
        return WORD * (len(self.registers) + self.flags)


def kept(live: int, clobbered: int) -> Kept:
    """The live registers and flags among ``clobbered`` (register bits and FLAGS). Saving flags clobbers rax."""
    flags = bool(live & clobbered & FLAGS)
    if flags:
        clobbered |= RAX_BIT
    return Kept(tuple(reg for reg in range(16) if (live & clobbered) >> reg & 1), flags)


def enter(builder: CodeBuilder, frame: Kept) -> None:
    for reg in frame.registers:
        builder.emit(asm.push(reg))
    if frame.flags:
        builder.emit(asm.LAHF + asm.SETO_AL + asm.push(asm.RAX))


def leave(builder: CodeBuilder, frame: Kept) -> None:
    if frame.flags:
        builder.emit(asm.pop(asm.RAX) + asm.ADD_AL_127 + asm.SAHF)
    for reg in reversed(frame.registers):
        builder.emit(asm.pop(reg))


def dead(live: int, avoid: int = 0) -> int | None:
    """A register that holds no live value, is not in ``avoid``, and is fit to be a base; None if there is none."""
    taken = live | avoid | _UNFIT
    return next((reg for reg in _PREFERENCE if not taken >> reg & 1), None)


def scratch(live: int, avoid: int) -> int:
    """A dead register, or if there is none one that has to be saved; none of ``avoid``."""
    found = dead(live, avoid)
    return found if found is not None else next(reg for reg in _PREFERENCE if not avoid >> reg & 1)


def borrow(builder: CodeBuilder, reg: int, live: int, avoid: int) -> tuple[bytes, int]:
    """Make ``reg`` free for a while: returns the code that restores it, and the bit of the register that holds its
    value meanwhile, or 0 if the stack does.

    Its value goes into a dead register if there is one, otherwise onto the stack.
    """
    if not live >> reg & 1:
        return b"", 1 << reg
    place = dead(live, avoid)
    if place is None:
        builder.emit(asm.push(reg))
        return asm.pop(reg), 0
    builder.emit(asm.move(place, reg))
    return asm.move(reg, place), 1 << place
