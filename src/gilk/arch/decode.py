# SPDX-License-Identifier: LGPL-2.1-or-later
"""Decodes x86-64 code, and has the classes of instructions that the analyses tell apart.

Enumerations of iced are plain integers here, because comparing them is the inner loop.
"""

from __future__ import annotations

from typing import Final

from iced_x86 import Code, Decoder, FlowControl, Instruction, MemorySizeExt, Mnemonic, Register

NEXT: Final[int] = FlowControl.NEXT
JUMP: Final[int] = FlowControl.UNCONDITIONAL_BRANCH
JUMP_INDIRECT: Final[int] = FlowControl.INDIRECT_BRANCH
BRANCH: Final[int] = FlowControl.CONDITIONAL_BRANCH
RETURN: Final[int] = FlowControl.RETURN
CALL: Final[int] = FlowControl.CALL
CALL_INDIRECT: Final[int] = FlowControl.INDIRECT_CALL
INTERRUPT: Final[int] = FlowControl.INTERRUPT
TRANSACTION: Final[int] = FlowControl.XBEGIN_XABORT_XEND
EXCEPTION: Final[int] = FlowControl.EXCEPTION

NO_REGISTER: Final[int] = Register.NONE
RIP: Final[int] = Register.RIP
INVALID: Final[int] = Code.INVALID

_SYSTEM_CALLS: Final = frozenset({Code.SYSCALL, Code.SYSENTER, Code.INT_IMM8})
_TRAPS: Final = frozenset({Code.INT3, Code.INT1})
_NEAR_CALLS: Final = frozenset({Code.CALL_REL32_64, Code.CALL_REL16})


def decode(code: bytes, address: int) -> list[Instruction]:
    """All instructions of ``code``, one after the other; bytes that do not decode give ``Code.INVALID``."""
    return list(Decoder(64, code, ip=address))


def decode_one(code: bytes, address: int) -> Instruction:
    """The instruction at the beginning of ``code``."""
    return Decoder(64, code, ip=address).decode()


def is_system_call(instruction: Instruction) -> bool:
    """Whether this is ``syscall``, ``sysenter`` or ``int n``, after which control comes back."""
    return instruction.code in _SYSTEM_CALLS


def is_direct_call(instruction: Instruction) -> bool:
    """Whether this is a near call with its target in the instruction."""
    return instruction.code in _NEAR_CALLS


def is_trap(instruction: Instruction) -> bool:
    """Whether this is ``int3`` or ``int1``, which a program executes only to stop."""
    return instruction.code in _TRAPS


def stops(instruction: Instruction) -> bool:
    """Whether control never continues after it: ud2, hlt, int3, undecodable bytes."""
    return instruction.flow_control == EXCEPTION or instruction.code == Code.HLT or instruction.code in _TRAPS


def raises(instruction: Instruction) -> bool:
    """Whether this is ud2, int3 or the like, which raises an exception whose handler may look at the address it came
    from."""
    return instruction.flow_control in (EXCEPTION, INTERRUPT)


def is_nop(instruction: Instruction) -> bool:
    """Whether this is padding: ``nop`` of any length."""
    return instruction.mnemonic == Mnemonic.NOP


def memory_bytes(instruction: Instruction) -> int:
    """The size of the memory operand in bytes."""
    return MemorySizeExt.size(instruction.memory_size)


def register_bytes(register: int) -> int:
    """The size of a general register in bytes."""
    if register >= Register.RAX:
        return 8
    if register >= Register.EAX:
        return 4
    return 2 if register >= Register.AX else 1


def signed(value: int, bits: int = 64) -> int:
    """The low ``bits`` of a number as a signed one."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
