# SPDX-License-Identifier: LGPL-2.1-or-later
"""The instruction that has made an access of memory, found from where its thread stands afterwards.

Code cannot be decoded backwards for certain. So the bytes before the place are decoded from each of them on; most of
these readings soon agree with that of the program. An instruction counts if it ends at the place and can have accessed
the memory; if there are several, the one in which most readings end is believed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from iced_x86 import (
    Decoder,
    Instruction,
    InstructionInfoFactory,
    MemorySizeExt,
    OpAccess,
    Register,
    Register_,
    RegisterExt,
    UsedMemory,
)

from gilk.arch.decode import INVALID, decode_one
from gilk.values import dataclass

#: The names of the general registers.
GENERAL = (
    *("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"),
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"),
)
LOOKED_AT = 64  # bytes of code before the place that are enough
LONGEST = 15  # bytes of an instruction
_CLEAR = 4  # how many times more readings must end in one instruction than in another that accesses memory otherwise
_READS = frozenset([OpAccess.READ, OpAccess.COND_READ, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE])
_WRITES = frozenset([OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE])
_DOWN = 1 << 10  # the direction flag
_WORD = (1 << 64) - 1
_THREADS, _UNKNOWN = frozenset([Register.FS]), frozenset([Register.GS])  # segments
_STACK = frozenset([Register.RSP])
_NOTHING = frozenset([Register.NONE, Register.RIP, Register.EIP])


@dataclass(frozen=True, slots=True)
class MadeAccess:
    """An access that the instruction at ``address`` has made."""

    address: int
    reads: bool
    writes: bool


@dataclass(frozen=True, slots=True)
class PassedPlace:
    """Where a thread stands after an access: the code ``before`` its place and ``after`` it, and the general registers
    by their names (``rax`` and so on), with ``rip``, ``eflags`` and ``fs_base``."""

    before: bytes
    after: bytes
    registers: Mapping[str, int]

    @property
    def place(self) -> int:
        return self.registers["rip"]


def made_access(passed: PassedPlace, low: int, high: int) -> MadeAccess | None:
    """The access of memory from ``low`` to ``high`` after which a thread stands; None if that cannot be told."""
    votes: dict[MadeAccess, int] = {}
    amid = decode_one(passed.after, passed.place)
    ended = [] if _is_repeated(amid) and _access(amid, passed, low, high) else _last(passed.before, passed.place)
    for instruction, readings in [(amid, 1), *ended] if _is_repeated(amid) else ended:
        access = _access(instruction, passed, low, high)
        if access is not None:
            votes[access] = readings
    return _clear(votes)


def _clear(votes: Mapping[MadeAccess, int]) -> MadeAccess | None:
    """The access that most readings end in; None if there is none, or others contradict it."""
    ranked = sorted(votes, key=votes.__getitem__, reverse=True)
    for other in ranked[1:]:
        same = (other.reads, other.writes) == (ranked[0].reads, ranked[0].writes)
        if not same and votes[other] * _CLEAR > votes[ranked[0]]:
            return None
    return ranked[0] if ranked else None


def _last(code: bytes, end: int) -> Iterator[tuple[Instruction, int]]:
    """The instructions that end at ``end``, each with how many readings of the code end in it."""
    start, size = end - len(code), len(code)
    decoder = Decoder(64, code, ip=start)
    ending: dict[int, Instruction] = {}
    lasts: list[int | None] = [None] * (size + 1)
    for at in range(size - 1, -1, -1):
        decoder.position, decoder.ip = at, start + at
        instruction = decoder.decode()
        behind = at + instruction.len
        if instruction.code == INVALID or behind > size:
            continue
        lasts[at] = at if behind == size else lasts[behind]
        if behind == size:
            ending[at] = instruction
    readings = Counter(one for one in lasts if one is not None)
    for at, instruction in ending.items():
        yield instruction, readings[at]


def _is_repeated(instruction: Instruction) -> bool:
    return instruction.is_string_instruction and (instruction.has_rep_prefix or instruction.has_repne_prefix)


def _access(instruction: Instruction, passed: PassedPlace, low: int, high: int) -> MadeAccess | None:
    """How the instruction may have accessed the memory, just before the thread stood there; None if it has not."""
    info = InstructionInfoFactory().info(instruction)
    changed = {RegisterExt.full_register(one.register) for one in info.used_registers() if one.access in _WRITES}
    reads = writes = False
    for memory in info.used_memory():
        start = _start(instruction, memory, passed, changed)
        size = _size(instruction, memory)
        if start is None or (start < high and start + size > low):
            reads |= memory.access in _READS
            writes |= memory.access in _WRITES
    return MadeAccess(int(instruction.ip), reads, writes) if reads or writes else None


def _start(instruction: Instruction, memory: UsedMemory, passed: PassedPlace, changed: set[Register_]) -> int | None:
    """The address of a memory operand; None if registers that it depends on have changed since in a way that is not
    known."""
    if memory.segment in _UNKNOWN:
        return None
    base = _value(memory.base, passed)
    if instruction.is_string_instruction:  # the last that it accessed: its registers point behind that
        size = _size(instruction, memory)
        return (base - (-size if passed.registers["eflags"] & _DOWN else size)) & _WORD
    if memory.base in _STACK and instruction.is_stack_instruction:
        base -= instruction.stack_pointer_increment
    elif RegisterExt.full_register(memory.base) in changed:
        return None
    if RegisterExt.full_register(memory.index) in changed:
        return None
    segment = passed.registers["fs_base"] if memory.segment in _THREADS else 0
    index = _value(memory.index, passed) * memory.scale
    return (base + index + memory.displacement + segment) & _WORD


def _size(instruction: Instruction, memory: UsedMemory) -> int:
    """The size of an operand in bytes; of a repeated string instruction that of one element."""
    kind = instruction.memory_size if instruction.is_string_instruction else memory.memory_size
    return max(MemorySizeExt.size(kind), 1)


def _value(register: Register_, passed: PassedPlace) -> int:
    if register in _NOTHING:
        return 0  # iced has put the address of the next instruction into the displacement
    value = passed.registers.get(_NAMES.get(RegisterExt.full_register(register), ""), 0)
    return value if RegisterExt.size(register) == 8 else value & (1 << 32) - 1


_NAMES = {getattr(Register, name.upper()): name for name in GENERAL}
