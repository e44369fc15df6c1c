# SPDX-License-Identifier: LGPL-2.1-or-later
"""Moves an instruction elsewhere without changing what it does.

Most instructions are copied as they are. A RIP-relative operand gets a new
displacement, a short branch becomes a long one, and a call is *emulated*: it
pushes the return address that the original would have pushed, so that no
address of a patch is ever seen by the program (unwinders, setjmp, backtraces,
``__builtin_return_address`` all work, and nothing has to be found again when
the patch goes away). The emulation begins with a real call so that the
processor's return stack stays balanced; only that one return is mispredicted.
"""

from __future__ import annotations

import struct

from iced_x86 import Code as Opcode
from iced_x86 import Decoder, Encoder, FlowControl, Instruction, OpKind, Register

from gilk.arch.asm import CALL_NEXT, JMP32
from gilk.arch.decode import signed
from gilk.splice.code import CodeBuilder

_NEXT = FlowControl.NEXT
_TRANSACTIONS = frozenset((Opcode.XBEGIN_REL32, Opcode.XEND, Opcode.XABORT_IMM8))
_TOP = -1 << 31 & (1 << 64) - 1  # from here on, where kernels lie, an address is its low half, sign-extended
_SHORT_LOOPS = {0xE0, 0xE1, 0xE2, 0xE3}  # loopne, loope, loop, jrcxz


class CannotRelocate(Exception):
    """The instruction has no equivalent elsewhere; ``args[0]`` is the refusal's slug."""


def why_not(instruction: Instruction) -> str:
    """Why an instruction that transfers control has no equivalent elsewhere, as a refusal's slug; '' when it has."""
    flow = instruction.flow_control
    if flow == FlowControl.CALL or flow == FlowControl.UNCONDITIONAL_BRANCH:
        return "" if instruction.op0_kind == OpKind.NEAR_BRANCH64 or not instruction.op_count else "far-branch"
    if flow == FlowControl.INDIRECT_CALL:
        return _why_not_called(instruction)
    if flow == FlowControl.XBEGIN_XABORT_XEND:
        return "" if instruction.code in _TRANSACTIONS else "transaction"
    return ""


def _why_not_called(instruction: Instruction) -> str:
    """Why an indirect call cannot be relocated, or ''. The processor reads the operand before it pushes the return
    address; the relocated code reads it afterwards.
    """
    if instruction.code != Opcode.CALL_RM64:
        return "far-branch"
    if instruction.op0_kind == OpKind.REGISTER:
        return "call-rsp" if instruction.op0_register == Register.RSP else ""
    overwritten = instruction.memory_base == Register.RSP and -16 < signed(instruction.memory_displacement) < 0
    return "call-rsp" if overwritten else ""


def relocate(builder: CodeBuilder, instruction: Instruction, raw: bytes, bias: int) -> None:
    """Append code that does at run time what ``raw``, decoded as ``instruction`` at its link-time address, does.

    ``bias`` is what the loader added. Raises CannotRelocate for far control transfers and calls through ``rsp`` itself.
    """
    flow = instruction.flow_control
    if flow == _NEXT:
        _copy(builder, instruction, raw, bias)
        return
    reason = why_not(instruction)
    if reason:
        raise CannotRelocate(reason)
    if flow == FlowControl.CONDITIONAL_BRANCH:
        _conditional(builder, instruction, raw, bias)
    elif flow == FlowControl.UNCONDITIONAL_BRANCH:
        builder.external(JMP32, instruction.near_branch_target + bias, jump=True)
    elif flow == FlowControl.INDIRECT_CALL or (flow == FlowControl.CALL and instruction.op_count):
        _call(builder, instruction, raw, bias)
    elif instruction.code == Opcode.XBEGIN_REL32:
        builder.external(raw[:-4], instruction.near_branch_target + bias)
    else:
        _copy(builder, instruction, raw, bias)


def _copy(builder: CodeBuilder, instruction: Instruction, raw: bytes, bias: int) -> None:
    if not instruction.is_ip_rel_memory_operand:
        builder.emit(raw)
        return
    offset = displacement_offset(raw)
    builder.external(raw[:offset], _operand(instruction) + bias, raw[offset + 4 :])


def _operand(instruction: Instruction) -> int:
    """The address of a RIP-relative operand, in the same half of the address space as the instruction.

    Per-CPU variables of the kernel lie in the other half, at small offsets from GS.
    """
    address = int(instruction.ip_rel_memory_address)
    return address + (1 << 64) if address < 1 << 63 <= instruction.ip else address


def displacement_offset(raw: bytes) -> int:
    """The offset of the 32-bit displacement in ``raw``, which is one instruction."""
    decoder = Decoder(64, raw)
    return int(decoder.get_constant_offsets(decoder.decode()).displacement_offset)


def _conditional(builder: CodeBuilder, instruction: Instruction, raw: bytes, bias: int) -> None:
    target = instruction.near_branch_target + bias
    opcode = raw[-2]
    if instruction.len >= 2 and opcode in _SHORT_LOOPS and _is_loop(instruction):
        # loop +2; jmp over; jmp target
        builder.emit(raw[:-1].replace(b"\x66", b"") + b"\x02\xeb\x05")
        builder.external(JMP32, target, jump=True)
        return
    builder.external(bytes((0x0F, 0x80 | _condition(raw))), target, jump=True)


def _is_loop(instruction: Instruction) -> bool:
    return bool(instruction.is_loop or instruction.is_loopcc or instruction.is_jcx_short)


def _condition(raw: bytes) -> int:
    """The condition nibble of ``7x rel8`` or ``0f 8x rel32``, whatever prefixes stand before."""
    if len(raw) >= 6 and raw[-6] == 0x0F and raw[-5] & 0xF0 == 0x80:
        return raw[-5] & 15
    return raw[-2] & 15


def _call(builder: CodeBuilder, instruction: Instruction, raw: bytes, bias: int) -> None:
    returns_to = instruction.next_ip + bias
    builder.emit(CALL_NEXT)
    if returns_to >= _TOP:
        builder.emit(b"\x48\xc7\x04\x24" + struct.pack("<I", returns_to & 0xFFFFFFFF))
    else:
        builder.word(b"\xc7\x04\x24", b"\xc7\x44\x24\x04", returns_to)
    transfer(builder, instruction, jump_of_call(instruction, raw), bias)


def transfer(builder: CodeBuilder, instruction: Instruction, jump: bytes, bias: int) -> None:
    """Append the jump that remains of a call once its return address is on the stack."""
    if instruction.flow_control == FlowControl.CALL:
        builder.external(JMP32, instruction.near_branch_target + bias)
    elif instruction.is_ip_rel_memory_operand:
        offset = displacement_offset(jump)
        builder.external(jump[:offset], _operand(instruction) + bias, jump[offset + 4 :])
    else:
        builder.emit(jump)


def jump_of_call(instruction: Instruction, raw: bytes) -> bytes:
    """The call as a ``jmp`` with the stack eight bytes deeper; b'' for a direct call.

    Indirect calls are FF /2, indirect jumps FF /4: one field of the ModRM byte. An operand based on rsp is corrected
    for the push.
    """
    if instruction.flow_control == FlowControl.CALL:
        return b""
    if instruction.op0_kind == OpKind.MEMORY and instruction.memory_base == Register.RSP:
        return _rebased(instruction)
    at = raw.index(b"\xff")
    return raw[:at] + bytes((0xFF, raw[at + 1] & 0xC7 | 0x20)) + raw[at + 2 :]


def _rebased(instruction: Instruction) -> bytes:
    moved = instruction.copy()
    moved.code = Opcode.JMP_RM64
    moved.memory_displacement = instruction.memory_displacement + 8 & 0xFFFFFFFFFFFFFFFF
    moved.memory_displ_size = 8
    encoder = Encoder(64)
    encoder.encode(moved, 0)
    return bytes(encoder.take_buffer())
