# SPDX-License-Identifier: LGPL-2.1-or-later
"""How single instructions use their memory operands: whether they read or write, how many bytes, and in which
manner.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from iced_x86 import (
    Code,
    EncodingKind,
    Instruction,
    InstructionInfoFactory,
    Mnemonic,
    OpAccess,
    OpKind,
    Register,
    RegisterExt,
    UsedMemory,
)

from gilk.arch import decode as x86
from gilk.values import dataclass

_information: Final = InstructionInfoFactory()
_READS: Final = frozenset({OpAccess.READ, OpAccess.READ_WRITE, OpAccess.COND_READ, OpAccess.READ_COND_WRITE})
_WRITES: Final = frozenset({OpAccess.WRITE, OpAccess.READ_WRITE, OpAccess.COND_WRITE, OpAccess.READ_COND_WRITE})
_PERHAPS: Final = frozenset({OpAccess.COND_WRITE})
_NONE: Final = frozenset({OpAccess.NONE, OpAccess.NO_MEM_ACCESS})
_ATOMIC: Final = frozenset({Mnemonic.XCHG, Mnemonic.XADD, Mnemonic.CMPXCHG, Mnemonic.CMPXCHG8B, Mnemonic.CMPXCHG16B})
_HINTS = ("PREFETCH", "NOP", "CLFLUSH", "RESERVEDNOP")
_PREFETCHES: Final = frozenset(
    code for name, code in vars(Mnemonic).items() if isinstance(code, int) and name.startswith(_HINTS)
)
_STRINGS: Final = frozenset({
    Mnemonic.MOVSB, Mnemonic.MOVSW, Mnemonic.MOVSD, Mnemonic.MOVSQ, Mnemonic.STOSB, Mnemonic.STOSW, Mnemonic.STOSD,
    Mnemonic.STOSQ, Mnemonic.LODSB, Mnemonic.LODSW, Mnemonic.LODSD, Mnemonic.LODSQ, Mnemonic.CMPSB, Mnemonic.CMPSW,
    Mnemonic.CMPSD, Mnemonic.CMPSQ, Mnemonic.SCASB, Mnemonic.SCASW, Mnemonic.SCASD, Mnemonic.SCASQ,
})  # fmt: skip
_FILLS: Final = frozenset({
    Mnemonic.STOSB, Mnemonic.STOSW, Mnemonic.STOSD, Mnemonic.STOSQ, Mnemonic.INSB, Mnemonic.INSW, Mnemonic.INSD,
})  # fmt: skip
_STORES: Final = frozenset({
    Mnemonic.STOSB, Mnemonic.STOSW, Mnemonic.STOSD, Mnemonic.STOSQ, Mnemonic.MOVSB, Mnemonic.MOVSW, Mnemonic.MOVSD,
    Mnemonic.MOVSQ,
})  # fmt: skip
_MASKED: Final = frozenset({Mnemonic.MASKMOVDQU, Mnemonic.MASKMOVQ, Mnemonic.VMASKMOVDQU})
_STRING_KINDS: Final = frozenset(
    {OpKind.MEMORY_SEG_RSI, OpKind.MEMORY_SEG_ESI, OpKind.MEMORY_ESRDI, OpKind.MEMORY_ESEDI, OpKind.MEMORY_SEG_RDI}
)
_WIDEST: Final = 64
_BIT_STRINGS: Final = frozenset({
    Code.BT_RM16_R16, Code.BT_RM32_R32, Code.BT_RM64_R64, Code.BTS_RM16_R16, Code.BTS_RM32_R32, Code.BTS_RM64_R64,
    Code.BTR_RM16_R16, Code.BTR_RM32_R32, Code.BTR_RM64_R64, Code.BTC_RM16_R16, Code.BTC_RM32_R32, Code.BTC_RM64_R64,
})  # fmt: skip
#: Vector moves that do not need an aligned operand, or have a variant that does not (splice/access.py).
_MOVES: Final = frozenset({
    Mnemonic.MOVAPS, Mnemonic.MOVAPD, Mnemonic.MOVDQA, Mnemonic.MOVUPS, Mnemonic.MOVUPD, Mnemonic.MOVDQU,
    Mnemonic.LDDQU, Mnemonic.MOVNTDQ, Mnemonic.MOVNTPS, Mnemonic.MOVNTPD,
})  # fmt: skip
_ALIGNED_READS: Final = frozenset({Mnemonic.MOVNTDQA, Mnemonic.VMOVNTDQA})


class OperandManner(Enum):
    """How an instruction accesses its memory operand."""

    PLAIN = auto()  # it reads the operand, computes, and writes it
    TIED = auto()  # it reads the operand, which must stay where it is: a jump, a push, a vector that must be aligned
    ATOMIC = auto()  # it reads and writes the operand atomically, or may change a register of its address
    STRING = auto()  # it accesses memory at rsi and rdi, perhaps with a count
    STRANGE = auto()  # it is not known which bytes it accesses: bit strings, masks, parts of the processor's state


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The use of a memory operand of ``size`` bytes."""

    reads: bool
    writes: bool
    size: int
    manner: OperandManner


def memory_use(instruction: Instruction) -> MemoryUse | None:
    """The use of the instruction's memory operand; None if it has none, or does not access it, as ``lea``."""
    kinds = _operand_kinds(instruction)
    if not kinds.isdisjoint(_STRING_KINDS):
        return _string(instruction)
    if OpKind.MEMORY not in kinds:
        return None
    if instruction.mnemonic == Mnemonic.LEA or instruction.mnemonic in _PREFETCHES:
        return None
    used = (one.access for one in _information.info(instruction).used_memory() if _is_operand(one, instruction))
    accesses: list[int] = [one for one in used if one not in _NONE]
    reads, writes = any(one in _READS for one in accesses), any(one in _WRITES for one in accesses)
    if not reads and not writes:
        return None
    size = x86.memory_bytes(instruction)
    return MemoryUse(reads, writes, size, _manner(instruction, accesses, reads, writes, size))


def _is_operand(used: UsedMemory, instruction: Instruction) -> bool:
    """Whether the access is to the operand, not to the stack, to which a push writes besides."""
    if instruction.is_ip_rel_memory_operand:
        return int(used.base) in (Register.NONE, Register.RIP)
    return bool(used.base == instruction.memory_base and used.index == instruction.memory_index)


def is_string(instruction: Instruction) -> bool:
    """Whether the instruction accesses memory at rsi or rdi."""
    return not _operand_kinds(instruction).isdisjoint(_STRING_KINDS)


def _operand_kinds(instruction: Instruction) -> frozenset[int]:
    return frozenset([instruction.op_kind(n) for n in range(instruction.op_count)])


def _manner(instruction: Instruction, accesses: list[int], reads: bool, writes: bool, size: int) -> OperandManner:
    if instruction.has_lock_prefix or instruction.mnemonic in _ATOMIC:
        return OperandManner.ATOMIC
    if not 0 < size <= _WIDEST or any(one in _PERHAPS for one in accesses) or instruction.code in _BIT_STRINGS:
        return OperandManner.STRANGE
    if writes and size not in (1, 2, 4, 8) and (reads or size not in (16, 32, 64)):
        return OperandManner.STRANGE
    if _uses_stack_pointer(instruction) or instruction.flow_control != x86.NEXT:
        return OperandManner.STRANGE if writes else OperandManner.TIED
    if instruction.mnemonic in _ALIGNED_READS:
        return OperandManner.TIED
    if size >= 16 and instruction.encoding == EncodingKind.LEGACY and instruction.mnemonic not in _MOVES:
        return OperandManner.STRANGE if writes else OperandManner.TIED
    if instruction.op_mask != Register.NONE or RegisterExt.is_vector_register(instruction.memory_index):
        return OperandManner.STRANGE
    return OperandManner.PLAIN


def is_plain_store(instruction: Instruction) -> bool:
    """Whether the instruction is a string instruction with 64-bit addresses that, besides reads, only writes from rdi
    on.
    """
    return instruction.mnemonic in _STORES and instruction.op0_kind == OpKind.MEMORY_ESRDI


def reads_string(instruction: Instruction) -> bool:
    """Whether it is a string instruction that reads memory."""
    return is_string(instruction) and instruction.mnemonic not in _FILLS


def _string(instruction: Instruction) -> MemoryUse | None:
    if instruction.mnemonic in _MASKED:
        return MemoryUse(False, True, x86.memory_bytes(instruction), OperandManner.STRANGE)
    scans = instruction.mnemonic in (Mnemonic.SCASB, Mnemonic.SCASW, Mnemonic.SCASD, Mnemonic.SCASQ)
    writes = instruction.op0_kind in (OpKind.MEMORY_ESRDI, OpKind.MEMORY_ESEDI) and not scans
    return MemoryUse(not writes, writes, x86.memory_bytes(instruction), OperandManner.STRING)


def _uses_stack_pointer(instruction: Instruction) -> bool:
    """Whether the instruction has rsp as an operand, or changes it."""
    return any(
        RegisterExt.full_register(one.register) == Register.RSP
        for one in _information.info(instruction).used_registers()
    )
