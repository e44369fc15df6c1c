# SPDX-License-Identifier: LGPL-2.1-or-later
"""Call frame instructions (DWARF 5, section 6.4.2): turns the program of an FDE into rules, each with the address from
which on it holds.

Only the registers by which frames are found are followed: RBP, RBX and the return address. A state that a FrameRule
cannot express becomes `NOTHING`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from gilk.image.encoding import sleb, uleb
from gilk.image.memory import MALFORMED
from gilk.values import dataclass

RSP, RBP, RBX, RETURN = 7, 6, 3, 16  # DWARF's numbers (System V ABI, figure 3.36)
_HERE = (RBP, RBX, RETURN)
#: The place of each register in struct gilk_regs (rax rcx rdx rbx rsp rbp rsi rdi r8 to r15), by DWARF's number.
HARDWARE_NUMBERS = (0, 2, 1, 3, 6, 7, 5, 4, *range(8, 16))
_FARTHEST = 1 << 28  # in bytes; frames are not larger


class How(IntEnum):
    """How the caller's frame is found: enum gu_how of native/abi/gilk_unwind.h."""

    NONE = 0
    PLAIN = 1
    DEREF = 2
    SIGNAL = 3
    END = 4


class FrameRule(NamedTuple):
    """The rule for finding the caller's frame: struct gu_rule. ``base`` is a place in struct gilk_regs. ``bp`` and
    ``bx`` are 0, or twice a distance, plus 1 if that is from RBP.
    """

    how: How
    base: int = 0
    offset: int = 0
    more: int = 0
    pc: int = 0
    bp: int = 0
    bx: int = 0


NOTHING, SIGNAL, END = FrameRule(How.NONE), FrameRule(How.SIGNAL), FrameRule(How.END)
Rows = list[tuple[int, FrameRule]]  # (offset in bytes from the function's start, the rule from there on)


@dataclass(frozen=True, slots=True)
class Common:
    """The contents of a CIE: the factors for code addresses and data offsets, and its program."""

    code: int
    data: int
    program: bytes
    return_register: int = RETURN


class _Unknown(Exception):
    """An instruction is unknown, so the instructions behind it cannot be read."""


class _State:
    """The state of a program. ``cfa`` is a register and an offset, or an expression. ``saved`` has for a register its
    offset from the CFA, or an expression. None means that the value cannot be recovered.
    """

    __slots__ = ("cfa", "saved")

    def __init__(self, cfa: tuple[int, int] | bytes | None, saved: dict[int, int | bytes | None]) -> None:
        self.cfa = cfa
        self.saved = saved

    def copy(self) -> _State:
        return _State(self.cfa, dict(self.saved))


def rows(common: Common, program: bytes) -> Rows:
    """The rows of one FDE, by offset in bytes from its start; the first is at 0."""
    state = _State(None, {})
    found: Rows = []
    try:
        _run(common, common.program, state, None, [])
        _run(common, program, state, state.copy(), found)
    except (_Unknown, *MALFORMED):
        return [(0, NOTHING)]
    return found


def _run(common: Common, program: bytes, state: _State, initial: _State | None, found: Rows) -> None:
    """Run ``program`` from ``state``, which it changes. If ``initial`` is given, rows are added to ``found``."""
    at, end, where, stack = 0, len(program), 0, list[_State]()
    saved = state.saved
    while at < end:
        code = program[at]
        at += 1
        high, low = code & 0xC0, code & 0x3F
        if high == 0x80:  # offset
            value, at = uleb(program, at)
            saved[low] = value * common.data
        elif high == 0x40 or code in (0x02, 0x03, 0x04):  # advance_loc
            size = 0 if high else 1 << code - 2
            delta = low if high else int.from_bytes(program[at : at + size], "little")
            at += size
            if delta:
                found.append((where, rule(state, common)))
                where += delta * common.code
        elif code == 0x00:
            continue
        elif code == 0x0E:  # def_cfa_offset
            value, at = uleb(program, at)
            state.cfa = (state.cfa[0], value) if isinstance(state.cfa, tuple) else None
        elif high == 0xC0 or code == 0x06:  # restore
            register = low
            if not high:
                register, at = uleb(program, at)
            _restore(saved, initial, register)
        elif code == 0x0A:
            stack.append(state.copy())
        elif code == 0x0B:
            state.cfa, state.saved = (back := stack.pop()).cfa, back.saved
            saved = state.saved
        else:
            at = _rest(common, program, state, code, at)
    if initial is not None:
        found.append((where, rule(state, common)))


def _restore(saved: dict[int, int | bytes | None], initial: _State | None, register: int) -> None:
    if initial is None or register not in initial.saved:
        saved.pop(register, None)
    else:
        saved[register] = initial.saved[register]


def _rest(common: Common, program: bytes, state: _State, code: int, at: int) -> int:
    """Run one of the rarer instructions, ``code``. Returns the offset of the next."""
    saved = state.saved
    if code == 0x0C:  # def_cfa
        register, at = uleb(program, at)
        value, at = uleb(program, at)
        state.cfa = register, value
    elif code == 0x0D:  # def_cfa_register
        register, at = uleb(program, at)
        state.cfa = (register, state.cfa[1]) if isinstance(state.cfa, tuple) else None
    elif code == 0x0F:  # def_cfa_expression
        state.cfa, at = _block(program, at)
    elif code in (0x10, 0x16):  # expression, val_expression
        register, at = uleb(program, at)
        block, at = _block(program, at)
        saved[register] = block if code == 0x10 else b""
    elif code == 0x05:  # offset_extended
        register, at = uleb(program, at)
        value, at = uleb(program, at)
        saved[register] = value * common.data
    elif code == 0x07:  # undefined
        register, at = uleb(program, at)
        saved[register] = None
    elif code == 0x08:  # same_value
        register, at = uleb(program, at)
        saved.pop(register, None)
    else:
        return _seldom(common, program, state, code, at)
    return at


def _seldom(common: Common, program: bytes, state: _State, code: int, at: int) -> int:
    if code == 0x2E:  # GNU_args_size
        return uleb(program, at)[1]
    if code == 0x13:  # def_cfa_offset_sf
        value, at = sleb(program, at)
        state.cfa = (state.cfa[0], value * common.data) if isinstance(state.cfa, tuple) else None
        return at
    if code not in (0x09, 0x11, 0x12, 0x14, 0x15, 0x2F):
        raise _Unknown
    register, at = uleb(program, at)
    value, at = (sleb if code in (0x11, 0x12, 0x15) else uleb)(program, at)
    if code == 0x12:  # def_cfa_sf
        state.cfa = register, value * common.data
    elif code == 0x11:  # offset_extended_sf
        state.saved[register] = value * common.data
    elif code == 0x2F:  # GNU_negative_offset_extended
        state.saved[register] = -value * common.data
    elif code == 0x09:
        state.saved[register] = bytes([0x50 + value % len(HARDWARE_NUMBERS)])  # the expression DW_OP_reg
    else:  # val_offset, val_offset_sf: the value does not lie on the stack
        state.saved[register] = b""
    return at


def _block(program: bytes, at: int) -> tuple[bytes, int]:
    size, at = uleb(program, at)
    return program[at : at + size], at + size


def rule(state: _State, common: Common) -> FrameRule:
    """The rule that a state stands for; NOTHING if a FrameRule cannot express it."""
    cfa, saved = state.cfa, state.saved
    back = saved.get(common.return_register, 0)
    if common.return_register in saved and back is None:
        return END
    found = _place(RBP, saved), _place(RBX, saved)
    how, more = How.PLAIN, 0
    if isinstance(back, bytes) and len(back) == 1 and isinstance(cfa, tuple):
        more, back = HARDWARE_NUMBERS[back[0] - 0x50] + 1, -8
    if not isinstance(back, int) or not back or None in found or cfa is None:
        return NOTHING
    if isinstance(cfa, bytes):
        taken = _dereference(cfa)
        if taken is None:
            return NOTHING
        how, (register, offset, more) = How.DEREF, taken
    else:
        register, offset = cfa
    if register >= len(HARDWARE_NUMBERS) or max(abs(offset), abs(more), abs(back)) >= _FARTHEST:
        return NOTHING
    if (how, register, offset) == (How.PLAIN, RSP, 8):  # the stack is empty; GCC leaves older rules for registers
        found = 0, 0
    return FrameRule(how, HARDWARE_NUMBERS[register], offset, more, back, found[0] or 0, found[1] or 0)


def _place(register: int, saved: dict[int, int | bytes | None]) -> int | None:
    """The place of a register as struct gu_rule stores it; None if it cannot be stored. A lost register counts as
    unchanged.
    """
    where = saved.get(register)
    if not where and where != 0:
        return 0
    if isinstance(where, bytes):  # GCC writes this where it aligns the stack: breg6 n
        if 0x50 <= where[0] < 0x60:
            return 0
        try:
            offset, end = sleb(where, 1)
        except MALFORMED:
            return None
        if where[0] != 0x70 + RBP or end != len(where) or abs(offset) >= _FARTHEST:
            return None
        return offset << 1 | 1
    return where << 1 if where and abs(where) < _FARTHEST else None


def _dereference(expression: bytes) -> tuple[int, int, int] | None:
    """The register, the offset and the addend of the expression ``breg n; deref; plus_uconst m``, the last part of
    which may be missing; None for other expressions.
    """
    if not expression or not 0x70 <= expression[0] <= 0x7F:
        return None
    offset, at = sleb(expression, 1)
    if expression[at : at + 1] != b"\x06":
        return None
    more, at = (0, at + 1) if expression[at + 1 : at + 2] != b"\x23" else uleb(expression, at + 2)
    return (expression[0] - 0x70, offset, more) if at == len(expression) else None


def stub_threshold(program: bytes) -> int | None:
    """The byte of a 16-byte PLT stub from which on the stack has one word more, taken from the FDE of a PLT; None for
    any other FDE.

    The program of such an FDE ends with CFA = RSP + 8 + ((RIP & 15 >= n) << 3). Linkers write nothing else there.
    """
    at = program.find(b"\x0f\x0b\x77\x08\x80\x00\x3f\x1a")
    tail = program[at + 8 : at + 13]
    if at < 0 or tail[1:] != b"\x2a\x33\x24\x22" or not 0x30 <= tail[0] <= 0x3F:
        return None
    return tail[0] - 0x30
