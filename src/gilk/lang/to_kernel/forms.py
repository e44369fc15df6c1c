# SPDX-License-Identifier: LGPL-2.1-or-later
"""The forms of instructions of which code for the kernel consists, and which the driver accepts: one row for each.

Nothing else is ever printed. The driver's checker (native/ilk/d/check.h) decodes by the same rows, which
tools/d_forms.py prints into native/abi/ilk_d_forms.h. An operand is a register, an immediate, or memory at rbx plus a
displacement. rbx points to the frame; no form writes it, nor rsp. Branches lead forward. There is no division
instruction, since it may trap; a helper divides.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

from gilk.values import dataclass

#: Registers by their numbers. Values are computed in rax and rcx; the others pass arguments to helpers.
RAX, RCX, RDX, RSI, R8, R9 = 0, 1, 2, 6, 8, 9
ARGUMENTS = (RSI, RDX, RCX, R8, R9)
_NAMES = {RAX: "rax", RCX: "rcx", RDX: "rdx", RSI: "rsi", R8: "r8", R9: "r9"}
_OTHERWISE = 8  # a bit of `writes`
_FRAME = 3  # rbx, as a base
EXIT = b"\xe9\xff\xff\xff\xff"  # the driver replaces it by a jump to its own exit


class Operand(IntEnum):
    """The bytes that follow those of a form."""

    NONE = 0
    IMMEDIATE = 1  # 4 bytes
    WIDE = 2  # an immediate of 8 bytes
    FRAME = 3  # a displacement of 4 bytes, of `width` bytes in the frame
    FRAME_IMMEDIATE = 4  # the same, and an immediate of 4 bytes
    JUMP = 5  # a displacement of 4 bytes, forwards; always taken
    BRANCH = 6  # a displacement of 4 bytes, forwards; may not be taken
    CALL = 7  # the number of a helper, in 4 bytes
    EXIT = 8


_SIZES = (0, 4, 8, 4, 8, 4, 4, 4, 0)


@dataclass(frozen=True, slots=True)
class CheckedForm:
    """A form. ``width``: the bytes of the frame that it reads or writes. ``writes``: the register of ARGUMENTS that it
    changes, by its number from 1, plus 8 unless the register gets the immediate; 0 if it changes none.
    """

    name: str
    code: bytes
    operand: Operand = Operand.NONE
    width: int = 0
    writes: int = 0

    @property
    def size(self) -> int:
        """The bytes of an instruction of this form."""
        return len(self.code) + _SIZES[self.operand]


def _form(name: str, code: str, operand: Operand = Operand.NONE, width: int = 0) -> CheckedForm:
    return CheckedForm(name, bytes.fromhex(code), operand, width)


def _registers() -> list[CheckedForm]:
    found = []
    for number, name in _NAMES.items():
        high, low = number >> 3, number & 7
        short = bytes([0x41] if high else [])
        given = ARGUMENTS.index(number) + 1 if number in ARGUMENTS else 0
        written = given | _OTHERWISE if given else 0
        found.append(CheckedForm(f"mov {name}, imm", short + bytes([0xB8 + low]), Operand.IMMEDIATE, writes=given))
        load = bytes([0x48 | high << 2, 0x8B, 0x80 | low << 3 | _FRAME])
        found.append(CheckedForm(f"mov {name}, frame", load, Operand.FRAME, 8, written))
        if number != RAX:
            found.append(CheckedForm(f"mov {name}, rax", bytes([0x48 | high, 0x89, 0xC0 | low]), writes=written))
    return found


_ALU = {"add": 0x01, "or": 0x09, "and": 0x21, "sub": 0x29, "xor": 0x31, "cmp": 0x39}
_CONDITIONS = {"b": 2, "ae": 3, "e": 4, "ne": 5, "be": 6, "a": 7, "l": 12, "ge": 13, "le": 14, "g": 15}
_FRAME_FORMS = """
    load u8             0fb683      1
    load s8             480fbe83    1
    load u16            0fb783      2
    load s16            480fbf83    2
    load u32            8b83        4
    load s32            486383      4
    store 1             8883        1
    store 2             668983      2
    store 4             8983        4
    store 8             488983      8
"""
_PLAIN = """
    mov rax, rcx        4889c8
    imul rax, rcx       480fafc1
    shl rax, cl         48d3e0
    shr rax, cl         48d3e8
    sar rax, cl         48d3f8
    neg rax             48f7d8
    not rax             48f7d0
    test rax            4885c0
    test eax            85c0
    extend u8           0fb6c0
    extend s8           480fbec0
    extend u16          0fb7c0
    extend s16          480fbfc0
    extend u32          89c0
    extend s32          4863c0
"""


def _rows(text: str) -> list[list[str]]:
    return [line.rsplit(maxsplit=1) for line in text.strip().splitlines()]


def _all() -> list[CheckedForm]:
    found = [CheckedForm("exit", EXIT, Operand.EXIT), _form("call", "4889dfe8", Operand.CALL)]
    found.append(_form("jmp", "e9", Operand.JUMP))
    found += [_form(name, code, Operand.BRANCH) for name, code in (("jz", "0f84"), ("jnz", "0f85"))]
    found += _registers()
    found.append(_form("mov rax, wide", "48b8", Operand.WIDE))
    found.append(_form("store immediate", "48c783", Operand.FRAME_IMMEDIATE, 8))
    for row, width in _rows(_FRAME_FORMS):
        name, code = row.rsplit(maxsplit=1)
        found.append(_form(name.strip(), code, Operand.FRAME, int(width)))
    found += [_form(name.strip(), code) for name, code in _rows(_PLAIN)]
    found += [CheckedForm(f"{name} rax, rcx", bytes([0x48, code, 0xC8])) for name, code in _ALU.items()]
    found += [
        CheckedForm(f"{name} rax, imm", bytes([0x48, code + 4]), Operand.IMMEDIATE) for name, code in _ALU.items()
    ]
    masked = _form("and ecx, imm", "81e1", Operand.IMMEDIATE)
    found.append(replace(masked, writes=ARGUMENTS.index(RCX) + 1 | _OTHERWISE))
    found += [CheckedForm(f"set{name} al", bytes([0x0F, 0x90 | code, 0xC0])) for name, code in _CONDITIONS.items()]
    return found


#: The forms in the order in which they are tried, since an exit looks like a jump.
FORMS = tuple(_all())
BY_NAME = {form.name: form for form in FORMS}


def form_at(code: bytes, at: int) -> CheckedForm | None:
    """The form of the instruction that begins at ``at``; None if no form fits."""
    return next((form for form in FORMS if code.startswith(form.code, at) and at + form.size <= len(code)), None)
