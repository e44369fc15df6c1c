# SPDX-License-Identifier: LGPL-2.1-or-later
"""Walks the copy of a thread's stack by unwind tables, as native/runtime/shared/walk.h walks stacks in a process."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from gilk.image.cfi import FrameRule, How
from gilk.trace.d.unwinding import MappedCode
from gilk.values import dataclass

_DEEPEST = 4096  # frames
_SIGNAL = 40  # where the registers are in struct ucontext
_BP_IN_SIGNAL, _BX_IN_SIGNAL, _SP_IN_SIGNAL, _PC_IN_SIGNAL = (_SIGNAL + 8 * n for n in (10, 11, 15, 16))
_BX, _SP, _BP, _PC = 3, 4, 5, 16  # in struct gilk_regs
_WORD = struct.Struct("<Q")
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class CopiedStack:
    """The registers of a thread, in the order of struct gilk_regs, and copies of its memory by address."""

    registers: tuple[int, ...]
    copies: tuple[tuple[int, bytes], ...]

    def word(self, address: int) -> int | None:
        """The word at an address; None if no copy has it."""
        for low, content in self.copies:
            if 0 <= address - low <= len(content) - 8:
                found: int = _WORD.unpack_from(content, address - low)[0]
                return found
        return None


@dataclass(frozen=True, slots=True)
class _Frame:
    """A frame. ``exact``: ``pc`` is the next instruction to run, not a return address. ``registers``: all of them, in
    the innermost frame only."""

    pc: int
    sp: int
    bp: int
    bx: int
    exact: bool = False
    registers: tuple[int, ...] = ()

    @property
    def within(self) -> int:
        """An address within the instruction at which the frame is."""
        return self.pc if self.exact else self.pc - 1

    def base(self, number: int) -> int | None:
        known = {_BX: self.bx, _SP: self.sp, _BP: self.bp}
        return known.get(number, self.registers[number] if self.registers else None)


def addresses(stack: CopiedStack, code: Sequence[MappedCode]) -> Iterator[int]:
    """An address within the instruction at which each frame is, innermost first, as far as the stack can be walked."""
    found = stack.registers
    frame: _Frame | None = _Frame(found[_PC], found[_SP], found[_BP], found[_BX], True, found)
    for _ in range(_DEEPEST):
        if frame is None:
            return
        yield frame.within
        frame = _caller(frame, stack, code)


def _caller(frame: _Frame, stack: CopiedStack, code: Sequence[MappedCode]) -> _Frame | None:
    rule = _rule(frame.within, code)
    match rule.how if rule is not None else How.NONE:
        case How.PLAIN | How.DEREF:
            assert rule is not None
            return _by_rule(frame, rule, stack)
        case How.SIGNAL:
            return _interrupted(frame, stack)
        case How.END:
            return None
    return _by_frame_pointer(frame, stack, code)


def _rule(address: int, code: Sequence[MappedCode]) -> FrameRule | None:
    mapped = _mapped(address, code)
    return None if mapped is None or mapped.unwind is None else mapped.unwind.rule(address - mapped.bias)


def _mapped(address: int, code: Sequence[MappedCode]) -> MappedCode | None:
    return next((one for one in code if one.start <= address < one.end), None)


def _by_rule(frame: _Frame, rule: FrameRule, stack: CopiedStack) -> _Frame | None:
    cfa = frame.base(rule.base)
    if cfa is None:
        return None
    cfa += rule.offset
    if rule.how is How.DEREF:
        read = stack.word(cfa)
        if read is None:
            return None
        cfa = read + rule.more
    in_register = rule.how is How.PLAIN and rule.more != 0
    pc = frame.base(rule.more - 1) if in_register else stack.word(cfa + rule.pc)
    if not pc or cfa < frame.sp + (not in_register):
        return None
    return _Frame(
        pc, cfa, _restored(frame, rule.bp, cfa, stack, frame.bp), _restored(frame, rule.bx, cfa, stack, frame.bx)
    )


def _restored(frame: _Frame, saved: int, cfa: int, stack: CopiedStack, now: int) -> int:
    """A register of the caller; one that cannot be read counts as unchanged."""
    if not saved or (saved & 1 and not frame.sp <= frame.bp < cfa):
        return now
    value = stack.word((frame.bp if saved & 1 else cfa) + (saved >> 1) & _MASK)
    return now if value is None else value


def _interrupted(frame: _Frame, stack: CopiedStack) -> _Frame | None:
    """The frame that a signal handler has interrupted."""
    places = (_PC_IN_SIGNAL, _SP_IN_SIGNAL, _BP_IN_SIGNAL, _BX_IN_SIGNAL)
    pc, sp, bp, bx = (stack.word(frame.sp + at) for at in places)
    return None if not pc or sp is None or bp is None or bx is None else _Frame(pc, sp, bp, bx, True)


def _by_frame_pointer(frame: _Frame, stack: CopiedStack, code: Sequence[MappedCode]) -> _Frame | None:
    """The caller by the frame pointer, if the word above the saved one leads to code."""
    if frame.bp & 7 or frame.bp < frame.sp:
        return None
    pc, bp = stack.word(frame.bp + 8), stack.word(frame.bp)
    if pc is None or bp is None or _mapped(pc, code) is None:
        return None
    return _Frame(pc, frame.bp + 16, bp, frame.bx)
