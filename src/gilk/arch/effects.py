# SPDX-License-Identifier: LGPL-2.1-or-later
"""The general registers and status flags that an instruction reads and overwrites.

Masks have a bit per general register, numbered as the hardware does, and above them either one bit for all status flags
(`effects`) or one for each (`fine_effects`, which liveness uses: ``dec`` leaves the carry flag alone).

*Reads* are all that may be read. *Kills* are all that are overwritten in full in any case: a 32-bit write clears the
upper half and so counts; 8- and 16-bit writes, ``cmov`` and repeated string instructions do not. The direction flag is
not in the masks: a patch never changes it.
"""

from __future__ import annotations

from typing import Final

from iced_x86 import Code, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register

from gilk.arch.decode import is_system_call

REGISTERS: Final = (1 << 16) - 1
FLAGS_SHIFT: Final = 16
STATUS_FLAGS: Final = 0x3F  # iced's RflagsBits: OF SF ZF AF CF PF
FINE_FLAGS: Final = STATUS_FLAGS << FLAGS_SHIFT
FINE_EVERYTHING: Final = REGISTERS | FINE_FLAGS

RCX: Final = 1 << 1
RSP: Final = 1 << 4
R11: Final = 1 << 11
PRESERVED: Final = 1 << 3 | 1 << 4 | 1 << 5 | 0xF000  # rbx, rsp, rbp, r12-r15, which callees preserve by convention
CALLER_SAVED: Final = REGISTERS & ~PRESERVED

_READS: Final = frozenset({OpAccess.READ, OpAccess.COND_READ, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE})
_KILLS: Final = frozenset({OpAccess.WRITE, OpAccess.READ_WRITE})
_WRITES: Final = _KILLS | {OpAccess.COND_WRITE, OpAccess.READ_COND_WRITE}
_CACHE_LIMIT: Final = 200_000  # instructions; some 40 MB

# The processor manuals leave all flags undefined after these: an old value may well survive.
_FLAGS_UNDEFINED: Final = frozenset({Mnemonic.DIV, Mnemonic.IDIV, Mnemonic.BSF, Mnemonic.BSR})
# Shifts by a count in cl, which may be zero: then no flag changes.
_SHIFTS: Final = frozenset(
    {
        Mnemonic.SHL, Mnemonic.SAL, Mnemonic.SHR, Mnemonic.SAR, Mnemonic.SHLD, Mnemonic.SHRD,
        Mnemonic.ROL, Mnemonic.ROR, Mnemonic.RCL, Mnemonic.RCR,
    }
)  # fmt: skip
_ZERO_IDIOMS: Final = frozenset({Mnemonic.SBB})  # iced itself handles xor and sub
_NO_EFFECT: Final = frozenset({Mnemonic.NOP, Mnemonic.ENDBR64, Mnemonic.ENDBR32, Mnemonic.RESERVEDNOP})
_BYTES: Final = (
    Register.AL, Register.CL, Register.DL, Register.BL, Register.SPL, Register.BPL, Register.SIL, Register.DIL,
)  # fmt: skip


def _register_bits() -> dict[int, tuple[int, int]]:
    """iced register -> (its mask bit, the same bit if writing the register overwrites all 64 bits, else 0)."""
    bits: dict[int, tuple[int, int]] = {}
    for number in range(16):
        bit = 1 << number
        bits[Register.R8L + number - 8 if number >= 8 else _BYTES[number]] = (bit, 0)
        bits[Register.AX + number] = (bit, 0)
        bits[Register.EAX + number] = bits[Register.RAX + number] = (bit, bit)
    return bits | {Register.AH + number: (1 << number, 0) for number in range(4)}


_BITS: Final = _register_bits()
_NOT_GENERAL: Final = (0, 0)
_information: Final = InstructionInfoFactory()
_cache: Final[dict[Instruction, tuple[int, int]]] = {}


def register_bit(register: int) -> int:
    """The mask bit of an iced register of any width; 0 when it is no general register."""
    return _BITS.get(register, _NOT_GENERAL)[0]


def number_of(register: int) -> int:
    """The hardware's number of an iced register of any width; -1 when it is no general register."""
    return register_bit(register).bit_length() - 1


def fine_effects(instruction: Instruction) -> tuple[int, int]:
    """(reads, kills), with a bit per status flag from `FLAGS_SHIFT` on."""
    known = _cache.get(instruction)
    if known is None:
        if len(_cache) >= _CACHE_LIMIT:
            _cache.clear()
        known = _cache[instruction] = _compute(instruction)
    return known


def effects(instruction: Instruction) -> tuple[int, int]:
    """(reads, kills), with one bit for all status flags: it is read when any flag is, and killed when all are."""
    reads, kills = fine_effects(instruction)
    killed = kills & FINE_FLAGS == FINE_FLAGS
    return fold(reads), kills & REGISTERS | (killed << FLAGS_SHIFT)


def fold(mask: int) -> int:
    """A fine mask with its six flag bits folded into one."""
    return mask & REGISTERS | (bool(mask & FINE_FLAGS) << FLAGS_SHIFT)


def _compute(instruction: Instruction) -> tuple[int, int]:
    mnemonic = instruction.mnemonic
    if mnemonic in _NO_EFFECT:
        return 0, 0
    if is_system_call(instruction):
        return _system_call(instruction)
    if mnemonic == Mnemonic.XBEGIN or instruction.code == Code.INVALID:
        return FINE_EVERYTHING, 0  # an abort restores the registers as they were here
    reads = kills = 0
    for used in _information.info(instruction).used_registers():
        bit, full = _BITS.get(used.register, _NOT_GENERAL)
        if used.access in _READS:
            reads |= bit
        if used.access in _KILLS:
            kills |= full
    if mnemonic in _ZERO_IDIOMS and _same_registers(instruction):
        reads = 0
    return reads | (instruction.rflags_read & STATUS_FLAGS) << FLAGS_SHIFT, kills | _flags_killed(instruction)


def _system_call(instruction: Instruction) -> tuple[int, int]:
    """The effects of a system call: the kernel may look at every register; ``syscall`` itself overwrites rcx and r11,
    and the flags are restored."""
    kills = RCX | R11 if instruction.code == Code.SYSCALL else 0
    return FINE_EVERYTHING & ~kills, kills


def _same_registers(instruction: Instruction) -> bool:
    return (
        instruction.op0_kind == instruction.op1_kind == OpKind.REGISTER
        and instruction.op0_register == instruction.op1_register
    )


def _flags_killed(instruction: Instruction) -> int:
    mnemonic = instruction.mnemonic
    if mnemonic in _FLAGS_UNDEFINED or instruction.has_rep_prefix or instruction.has_repne_prefix:
        return 0  # a repeat count of zero changes no flag
    if mnemonic in _SHIFTS and Register.CL in (instruction.op1_register, instruction.op2_register):
        return 0
    return (instruction.rflags_modified & STATUS_FLAGS) << FLAGS_SHIFT


def writes(instruction: Instruction) -> int:
    """A mask of all general registers that may change, also in part or on a condition."""
    mask = 0
    for used in _information.info(instruction).used_registers():
        if used.access in _WRITES:
            mask |= _BITS.get(used.register, _NOT_GENERAL)[0]
    return mask
