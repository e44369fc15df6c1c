# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes instructions with another memory operand, and code that changes registers as a string instruction does but
writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from iced_x86 import Code, Encoder, Instruction, MemoryOperand, Mnemonic, Register

_COPIES: Final = frozenset({Mnemonic.MOVSB, Mnemonic.MOVSW, Mnemonic.MOVSD, Mnemonic.MOVSQ})
_NO_RCX: Final = b"\xb9\0\0\0\0"  # mov ecx, 0: it keeps the flags


def is_repeated(instruction: Instruction) -> bool:
    return bool(instruction.has_rep_prefix or instruction.has_repne_prefix)


def stepped(instruction: Instruction, unit: int) -> bytes:
    """Code that changes registers as a string instruction that writes does, and writes nothing. ``unit`` is the size of
    one element in bytes.
    """
    repeated = is_repeated(instruction)
    moved = b""
    for register in (Register.RDI, *((Register.RSI,) if instruction.mnemonic in _COPIES else ())):
        memory = MemoryOperand(register, Register.RCX if repeated else Register.NONE, unit if repeated else 1,
                               0 if repeated else unit, 0 if repeated else 1)  # fmt: skip
        moved += encoded(Instruction.create_reg_mem(Code.LEA_R64_M, register, memory))
    return moved + (_NO_RCX if repeated else b"")


def exchanged(instruction: Instruction) -> bytes:
    """The instruction with the word at the stack pointer as its memory operand, which need not be aligned."""
    other = instruction.copy()
    if instruction.code in UNALIGNED:
        other.code = UNALIGNED[instruction.code]
    other.memory_base, other.memory_index, other.memory_index_scale = Register.RSP, Register.NONE, 1
    other.memory_displacement, other.memory_displ_size = 0, 0
    other.segment_prefix = Register.NONE
    return encoded(other)


def encoded(instruction: Instruction) -> bytes:
    encoder = Encoder(64)
    encoder.encode(instruction, 0)
    return bytes(encoder.take_buffer())


def _unaligned() -> dict[int, Any]:
    """The codes of moves that need an aligned operand, each with the code of the same move that does not."""
    names: dict[str, Any] = {name: code for name, code in vars(Code).items() if isinstance(code, int)}
    pairs = (("MOVAPS", "MOVUPS"), ("MOVAPD", "MOVUPD"), ("MOVDQA", "MOVDQU"))
    found = {
        code: names[name.replace(old, new)]
        for name, code in names.items()
        for old, new in pairs
        if old in name and name.replace(old, new) in names
    }
    return found | {names[old]: names[new] for old, new in _streaming()}


def _streaming() -> Iterator[tuple[str, str]]:
    """Pairs of names: a store past the caches, which needs an aligned operand, and a store that does not."""
    kinds = (("DQ", "VMOVDQU", "VMOVDQU32"), ("PS", "VMOVUPS", "VMOVUPS"), ("PD", "VMOVUPD", "VMOVUPD"))
    for kind, plain, wide in kinds:
        for bits, letter in ((128, "X"), (256, "Y")):
            yield f"VEX_VMOVNT{kind}_M{bits}_{letter}MM", f"VEX_{plain}_{letter}MMM{bits}_{letter}MM"
        for bits, letter in ((128, "X"), (256, "Y"), (512, "Z")):
            yield f"EVEX_VMOVNT{kind}_M{bits}_{letter}MM", f"EVEX_{wide}_{letter}MMM{bits}_K1Z_{letter}MM"
        yield f"MOVNT{kind}_M128_XMM", f"{plain[1:]}_XMMM128_XMM"


UNALIGNED: Final = _unaligned()
