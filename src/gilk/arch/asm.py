# SPDX-License-Identifier: LGPL-2.1-or-later
"""Encoders for the few instructions that patches are made of.

Registers are hardware numbers (rax=0, rcx=1, rdx=2, rbx=3, rsp=4, ... r15=15).
Each function returns machine code; tests/arch/test_asm.py holds every form
against objdump. Encodings: Intel SDM volume 2.
"""

from __future__ import annotations

import struct

RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI = range(8)
R8, R9, R10, R11, R12, R13, R14, R15 = range(8, 16)

LAHF = b"\x9f"
PUSHF = b"\x9c"
POPF = b"\x9d"
CLD = b"\xfc"
SAHF = b"\x9e"
SETO_AL = b"\x0f\x90\xc0"
#: Turns the 0 or 1 that ``seto al`` left back into the overflow flag: 1 + 127 overflows a signed byte.
ADD_AL_127 = b"\x04\x7f"
RDTSC = b"\x0f\x31"
SHL_RDX_32 = b"\x48\xc1\xe2\x20"
OR_RAX_RDX = b"\x48\x09\xd0"
INT3 = b"\xcc"
JMP32 = b"\xe9"
JMP_NEXT = b"\x3e\xff\x25\0\0\0\0"  # notrack jmp to the address that follows it
CALL32 = b"\xe8"
#: A call of what follows it, past a byte that is never executed: it only pushes an address.
CALL_NEXT = CALL32 + b"\x01\0\0\0" + INT3
LEA_R11_RIP = b"\x4c\x8d\x1d"  # lea r11, [rip + rel32]
LEA_R11_SIZE = 7
JMP8 = b"\xeb"
#: Sizes of whole instructions in bytes: with a displacement of 32 bits, and of 8.
JUMP_SIZE = CALL_SIZE = 5
JMP8_SIZE = 2
JNE32 = b"\x0f\x85"
JA32 = b"\x0f\x87"
JC32 = b"\x0f\x82"
JZ32 = b"\x0f\x84"
RET = b"\xc3"
PUSH32 = b"\x68"  # push imm32, sign extended
STORE_AT_4 = b"\xc7\x44\x24\x04"  # mov dword ptr [rsp + 4], imm32

_GS = 0x65
_NO_INDEX = 0x24
_ABSOLUTE = 0x25


def _rex(reg: int, base: int, wide: bool = True) -> int:
    return 0x40 | (wide << 3) | ((reg >> 3) << 2) | (base >> 3)


def _gs_absolute(opcode: int, reg: int, offset: int) -> bytes:
    """``opcode reg, gs:[offset]`` on 64 bits."""
    return struct.pack("<BBBBBi", _GS, _rex(reg, 0), opcode, 0x04 | (reg & 7) << 3, _ABSOLUTE, offset)


def _gs_based(opcode: int, reg: int, base: int, offset: int, wide: bool) -> bytes:
    """``opcode reg, gs:[base + offset]``; ``base`` is neither rsp nor r12, which need a SIB byte."""
    return struct.pack("<BBBBi", _GS, _rex(reg, base, wide), opcode, 0x80 | (reg & 7) << 3 | base & 7, offset)


def _based(opcode: int, reg: int, base: int, offset: int, wide: bool) -> bytes:
    """``opcode reg, [base + offset]``, short where the offset allows; ``base`` is neither rsp nor r12."""
    head = bytes((_rex(reg, base, wide), opcode))
    fields = (reg & 7) << 3 | base & 7
    if -128 <= offset < 128:
        return head + struct.pack("<Bb", 0x40 | fields, offset)
    return head + struct.pack("<Bi", 0x80 | fields, offset)


def inc_gs(offset: int) -> bytes:
    """``inc qword ptr gs:[offset]``"""
    return _gs_absolute(0xFF, 0, offset)


def cmp_gs(reg: int, offset: int) -> bytes:
    """``cmp reg, gs:[offset]``"""
    return _gs_absolute(0x3B, reg, offset)


def cmp_gs_zero(offset: int) -> bytes:
    """``cmp qword ptr gs:[offset], 0``"""
    return _gs_absolute(0x83, 7, offset) + b"\0"


def bit_test(base: int, reg: int) -> bytes:
    """``bt dword ptr [base], reg32``: tests one of the 2**31 bits from ``base`` on, which is neither rsp nor r12."""
    return struct.pack("<BBBBb", _rex(reg, base, wide=False), 0x0F, 0xA3, 0x40 | (reg & 7) << 3 | base & 7, 0)


def test_gs32_immediate(offset: int, value: int) -> bytes:
    """``test dword ptr gs:[offset], value``"""
    return struct.pack("<BBBBiI", _GS, 0xF7, 0x04, _ABSOLUTE, offset, value)


def test_byte_immediate(base: int, value: int) -> bytes:
    """``test byte ptr [base], value``; ``base`` is neither rsp nor r12."""
    return struct.pack("<BBBBB", _rex(0, base, wide=False), 0xF6, 0x40 | base & 7, 0, value)


def load_gs(reg: int, offset: int) -> bytes:
    """``mov reg, gs:[offset]``"""
    return _gs_absolute(0x8B, reg, offset)


def cmpxchg_gs(reg: int, offset: int) -> bytes:
    """``cmpxchg gs:[offset], reg``, without a lock prefix: only this thread writes there."""
    return struct.pack("<BBBBBBi", _GS, _rex(reg, 0), 0x0F, 0xB1, 0x04 | (reg & 7) << 3, _ABSOLUTE, offset)


def store_gs(reg: int, base: int, offset: int) -> bytes:
    """``mov gs:[base + offset], reg``"""
    return _gs_based(0x89, reg, base, offset, wide=True)


def store_gs32(reg: int, base: int, offset: int) -> bytes:
    """``mov dword ptr gs:[base + offset], reg32``"""
    return _gs_based(0x89, reg, base, offset, wide=False)


def store_gs32_immediate(base: int, offset: int, value: int) -> bytes:
    """``mov dword ptr gs:[base + offset], value``"""
    return _gs_based(0xC7, 0, base, offset, wide=False) + struct.pack("<I", value)


def inc_gs_based(base: int, offset: int) -> bytes:
    """``inc qword ptr gs:[base + offset]``"""
    return _gs_based(0xFF, 0, base, offset, wide=True)


def load_gs_based(reg: int, base: int, offset: int) -> bytes:
    """``mov reg, gs:[base + offset]``"""
    return _gs_based(0x8B, reg, base, offset, wide=True)


def cmp_gs_based(reg: int, base: int, offset: int) -> bytes:
    """``cmp reg, gs:[base + offset]``"""
    return _gs_based(0x3B, reg, base, offset, wide=True)


def cmpxchg_gs_based(reg: int, base: int, offset: int) -> bytes:
    """``cmpxchg gs:[base + offset], reg``, without a lock prefix: only this thread writes there."""
    fields = 0x80 | (reg & 7) << 3 | base & 7
    return struct.pack("<BBBBBi", _GS, _rex(reg, base), 0x0F, 0xB1, fields, offset)


def inc_gs_at(base: int) -> bytes:
    """``inc qword ptr gs:[base]``; ``base`` is neither rsp nor r12."""
    return bytes((_GS,)) + _based(0xFF, 0, base, 0, wide=True)


def store(reg: int, base: int, offset: int) -> bytes:
    """``mov [base + offset], reg``. Here and in the next three functions, ``base`` is neither rsp nor r12."""
    return _based(0x89, reg, base, offset, wide=True)


def store32(reg: int, base: int, offset: int) -> bytes:
    """``mov dword ptr [base + offset], reg32``"""
    return _based(0x89, reg, base, offset, wide=False)


def store32_immediate(base: int, offset: int, value: int) -> bytes:
    """``mov dword ptr [base + offset], value``"""
    return _based(0xC7, 0, base, offset, wide=False) + struct.pack("<I", value & 0xFFFFFFFF)


def load32(reg: int, base: int, offset: int) -> bytes:
    """``mov reg32, [base + offset]``"""
    return _based(0x8B, reg, base, offset, wide=False)


def load_frame(reg: int, base: int, offset: int, width: int) -> bytes:
    """``mov reg, [base + offset]`` of 8 bytes, or of 4, 2 or 1, which clears the rest; ``base`` is rsp or rbp."""
    wide = width == 8
    opcode = b"\x8b" if width >= 4 else b"\x0f\xb7" if width == 2 else b"\x0f\xb6"
    index = bytes((_NO_INDEX,)) if base == RSP else b""
    return (
        bytes((_rex(reg, base, wide),))
        + opcode
        + bytes((0x80 | (reg & 7) << 3 | base,))
        + index
        + struct.pack("<i", offset)
    )


def narrow(reg: int, width: int) -> bytes:
    """Clear all but the lowest ``width`` bytes of ``reg``: 1, 2 or 4."""
    if width == 4:
        return bytes((_rex(reg, reg, wide=False), 0x89, 0xC0 | (reg & 7) << 3 | reg & 7))
    return bytes((_rex(reg, reg, wide=False), 0x0F, 0xB7 if width == 2 else 0xB6, 0xC0 | (reg & 7) << 3 | reg & 7))


def push(reg: int) -> bytes:
    """``push reg``"""
    return (b"\x41" if reg > 7 else b"") + bytes((0x50 | reg & 7,))


def pop(reg: int) -> bytes:
    """``pop reg``"""
    return (b"\x41" if reg > 7 else b"") + bytes((0x58 | reg & 7,))


def push_immediate(value: int) -> bytes:
    """``push value``: pushes a 64-bit word, sign-extended from the low 32 bits of ``value``."""
    return b"\x68" + struct.pack("<I", value & 0xFFFFFFFF)


def move_immediate64(reg: int, value: int) -> bytes:
    """``movabs reg, value``"""
    return struct.pack("<BBQ", _rex(0, reg), 0xB8 | reg & 7, value & 0xFFFFFFFFFFFFFFFF)


def test_eax(value: int) -> bytes:
    """``test eax, value``"""
    return struct.pack("<BI", 0xA9, value)


def test(reg: int) -> bytes:
    """``test reg, reg``"""
    return bytes((_rex(reg, reg), 0x85, 0xC0 | (reg & 7) << 3 | reg & 7))


def shift_left(reg: int, count: int) -> bytes:
    """``shl reg32, count``"""
    return bytes((_rex(0, reg, wide=False), 0xC1, 0xE0 | reg & 7, count))


def shift_right(reg: int, count: int) -> bytes:
    """``shr reg32, count``"""
    return bytes((_rex(0, reg, wide=False), 0xC1, 0xE8 | reg & 7, count))


def multiply_immediate(reg: int, value: int) -> bytes:
    """``imul reg32, reg32, value``"""
    return struct.pack("<BBBI", _rex(reg, reg, wide=False), 0x69, 0xC0 | (reg & 7) << 3 | reg & 7, value)


def cmp_byte_zero(base: int, offset: int = 0) -> bytes:
    """``cmp byte ptr [base + offset], 0``; ``base`` is neither rsp nor r12."""
    return struct.pack("<BBBiB", _rex(0, base, wide=False), 0x80, 0xB8 | base & 7, offset, 0)


def jump_unless(condition: int) -> bytes:
    """The conditional jump that is taken where one of condition code ``condition`` is not, without the four bytes of
    its rel32."""
    return bytes((0x0F, 0x80 | condition ^ 1))


def or_into(to: int, source: int) -> bytes:
    """``or to32, source32``"""
    return bytes((_rex(source, to, wide=False), 0x09, 0xC0 | (source & 7) << 3 | to & 7))


def rdfsbase(reg: int) -> bytes:
    """``rdfsbase reg``"""
    return bytes((0xF3, _rex(0, reg), 0x0F, 0xAE, 0xC0 | reg & 7))


def add_rip(reg: int) -> bytes:
    """``add reg, [rip + rel32]``, without the four bytes of its rel32."""
    return bytes((_rex(reg, 0), 0x03, 0x05 | (reg & 7) << 3))


def lea_stack(reg: int, offset: int) -> bytes:
    """``lea reg, [rsp + offset]``: moves the stack pointer, or reads it, and leaves the flags alone."""
    return struct.pack("<BBBBi", _rex(reg, 0), 0x8D, 0x84 | (reg & 7) << 3, _NO_INDEX, offset)


def store_stack(reg: int, offset: int) -> bytes:
    """``mov [rsp + offset], reg``"""
    return struct.pack("<BBBBi", _rex(reg, 0), 0x89, 0x84 | (reg & 7) << 3, _NO_INDEX, offset)


def cmp_stack_zero(offset: int) -> bytes:
    """``cmp qword ptr [rsp + offset], 0``"""
    return struct.pack("<BBBBiB", _rex(0, 0), 0x83, 0xBC, _NO_INDEX, offset, 0)


def load_stack(reg: int, offset: int) -> bytes:
    """``mov reg, [rsp + offset]``"""
    return struct.pack("<BBBBi", _rex(reg, 0), 0x8B, 0x84 | (reg & 7) << 3, _NO_INDEX, offset)


def lea(reg: int, base: int, offset: int) -> bytes:
    """``lea reg, [base + offset]``; ``base`` is neither rsp nor r12."""
    return struct.pack("<BBBi", _rex(reg, base), 0x8D, 0x80 | (reg & 7) << 3 | base & 7, offset)


def move(to: int, source: int) -> bytes:
    """``mov to, source``"""
    return bytes((_rex(source, to), 0x89, 0xC0 | (source & 7) << 3 | to & 7))


def add(to: int, source: int) -> bytes:
    """``add to, source``"""
    return bytes((_rex(source, to), 0x01, 0xC0 | (source & 7) << 3 | to & 7))


def and_immediate(reg: int, value: int) -> bytes:
    """``and reg32, value``: clears the upper half of the register, too."""
    prefix = bytes((0x41,)) if reg > 7 else b""
    return prefix + struct.pack("<BBI", 0x81, 0xE0 | reg & 7, value)


def move_immediate(reg: int, value: int) -> bytes:
    """``mov reg32, value``: zero-extended to 64 bits."""
    prefix = bytes((0x41,)) if reg > 7 else b""
    return prefix + struct.pack("<BI", 0xB8 | reg & 7, value & 0xFFFFFFFF)


def store_stack_immediate(offset: int, value: int) -> bytes:
    """``mov dword ptr [rsp + offset], value`` for 0 <= offset < 128."""
    return struct.pack("<BBBBI", 0xC7, 0x44, _NO_INDEX, offset, value & 0xFFFFFFFF)
