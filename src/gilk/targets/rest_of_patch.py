# SPDX-License-Identifier: LGPL-2.1-or-later
"""Follows the rest of a patch on paper, and of the functions that it has called: only what restores the stack pointer,
registers and flags is computed, and the instrument's work is left out.

Registers that the patch does not restore are dead to the program, whatever they hold. The stack is only read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from iced_x86 import Code, Instruction, Mnemonic, OpKind, Register, RegisterExt

from gilk.arch import asm, decode
from gilk.arch.effects import CALLER_SAVED, number_of, writes
from gilk.targets.frames import ContextRegisters
from gilk.targets.memory import Memory
from gilk.targets.places import Places

_LONGEST: Final = 15  # bytes of an instruction
_WORD: Final = (1 << 64) - 1
_OVERFLOW: Final = 1 << 11
_TRAP: Final = 1 << 8
_DIRECTION: Final = 1 << 10
_BY_LAHF: Final = 0xD5  # the flags that lahf and sahf move: SF, ZF, AF, PF, CF
_STACK: Final = 1 << asm.RSP
_JUMPS: Final = frozenset((Code.JMP_REL32_64, Code.JMP_REL8_64))
#: Work of instruments with registers alone: they compute in those that they have saved, or that are dead.
_COMPUTING: Final = frozenset(
    (
        Code.RDFSBASE_R64, Code.RDTSC, Code.SHL_RM64_IMM8, Code.OR_R64_RM64, Code.OR_RM64_R64, Code.AND_RM64_IMM32,
        Code.AND_RM32_IMM32, Code.AND_EAX_IMM32, Code.AND_RAX_IMM32, Code.ADD_RM64_R64, Code.ADD_R64_RM64,
        Code.MOV_R32_IMM32, Code.MOV_RM64_IMM32, Code.IMUL_R32_RM32_IMM32, Code.SHR_RM32_IMM8,
    )
)  # fmt: skip
_STACK_POINTER: Final[int] = Register.RSP
_AL: Final[int] = Register.AL
_GS: Final[int] = Register.GS
_OTHER_BASES: Final = frozenset((Register.FS, _GS))  # segments that do not begin at 0
#: Instructions that restore vector registers from memory.
_RESTORING: Final = frozenset((Mnemonic.XRSTOR, Mnemonic.XRSTOR64, Mnemonic.FXRSTOR, Mnemonic.FXRSTOR64))
_COMPARING: Final = frozenset((Mnemonic.CMP, Mnemonic.TEST, Mnemonic.BT))


class RestOfPatch:
    """The rest of a patch, followed from where a context is. ``jumped``: the last step was a jump. ``work``: the
    addresses of the patch's instructions that were passed, and that count, record or call a function. ``spoilt``: a
    mask of the registers that hold something else than what the program has put there.

    In functions, whatever concerns other memory than the stack is left out: by any way to its end, a function restores
    what it has saved.
    """

    def __init__(self, registers: ContextRegisters, places: Places, memory: Memory, spoilt: int = 0) -> None:
        self._general = list(registers.general)
        self._flags, self.rip, self.jumped = registers.flags, registers.rip, False
        self.spoilt = spoilt
        self.work: list[int] = []
        self._places = places
        self._memory = memory
        self._passed: set[int] = set()  # the conditional jumps that were not taken
        self._stored = dict(registers.stored)  # what the rest of the patch has stored on the stack, too

    def registers(self, rip: int) -> ContextRegisters:
        return ContextRegisters(tuple(self._general), self._flags, rip)

    def step(self, executed: bool = False) -> bool:
        """Follow one instruction. Returns whether that is possible. ``executed``: the instruction is not left out, for
        ``spoilt``, if it does the instrument's work."""
        instruction = decode.decode_one(self._memory.some(self.rip, _LONGEST), self.rip)
        self.jumped = instruction.code in _JUMPS or instruction.code == Code.JMP_RM64
        if self.jumped:
            return self._jump(instruction)
        if instruction.flow_control == decode.BRANCH:
            return self._branch(instruction)
        if instruction.code == Code.RETNQ:
            return self._return()
        follow = _FOLLOWED.get(instruction.code)
        known = follow(self, instruction) if follow else False
        in_patch = self._places.in_patch(self.rip)
        if not known and not (self._is_of_instrument(instruction) if in_patch else _is_of_function(instruction)):
            return False
        if in_patch:
            self._note(instruction, known or executed)
        return self._go_on(int(instruction.next_ip))

    def _note(self, instruction: Instruction, executed: bool) -> None:
        """Note what an instruction of a patch does."""
        called = instruction.flow_control == decode.CALL
        if called or _is_stored_in_block(instruction):
            self.work.append(self.rip)
        if _restores(instruction):
            self.spoilt &= ~writes(instruction)
        elif executed:
            self.spoilt |= (CALLER_SAVED if called else writes(instruction)) & ~_STACK

    def _jump(self, instruction: Instruction) -> bool:
        """Follow a jump; an indirect one is the end of a call that calls its patch (splice/tactics/call.py)."""
        if instruction.code in _JUMPS:
            return self._go_on(int(instruction.near_branch_target))
        if not self._places.in_patch(self.rip):
            return self._return()  # a call of another function, which then returns for this one
        if instruction.op0_kind == OpKind.REGISTER:
            return self._go_on(self._general[number_of(instruction.op0_register)])
        found = None if instruction.segment_prefix in _OTHER_BASES else self._word(self._address(instruction))
        return found is not None and self._go_on(found)

    def _branch(self, instruction: Instruction) -> bool:
        """Follow a conditional jump: not taken, but the second time, since it is the way out of a loop then. All ways
        meet again where registers are restored."""
        taken = self.rip in self._passed
        self._passed.add(self.rip)
        return self._go_on(int(instruction.near_branch_target if taken else instruction.next_ip))

    def _return(self) -> bool:
        """Follow a return from a function: to a function, or to a patch behind a call that is not one of advice."""
        found = self._popped()
        if found is None:
            return False
        if self._memory.some(found - asm.CALL_SIZE, 1) == asm.CALL32:
            return not self._calls_advice(found - asm.CALL_SIZE) and self._go_on(found)
        return not self._places.in_patch(found) and self._go_on(found)

    def _go_on(self, address: int) -> bool:
        self.rip = address
        return True

    def _calls_advice(self, call: int) -> bool:
        """Whether the call at this address is one of advice."""
        return self._memory.some(call - asm.LEA_R11_SIZE, len(asm.LEA_R11_RIP)) == asm.LEA_R11_RIP

    def _address(self, instruction: Instruction) -> int:
        """The address of the memory operand, in a segment that begins at 0."""
        if instruction.is_ip_rel_memory_operand:
            return int(instruction.ip_rel_memory_address)
        address = int(instruction.memory_displacement)
        for register, scale in (
            (instruction.memory_base, 1),
            (instruction.memory_index, instruction.memory_index_scale),
        ):
            if register != decode.NO_REGISTER:
                address += self._general[number_of(register)] * scale
        return address & _WORD

    # Instructions that restore the program's registers. Each method returns whether it has followed the instruction.

    def _lea(self, instruction: Instruction) -> bool:
        if instruction.op0_register != _STACK_POINTER or not _on_stack(instruction):
            return False
        self._general[asm.RSP] = self._address(instruction)
        return True

    def _move(self, instruction: Instruction) -> bool:
        """Follow a move of a word from a register or the stack to a register or the stack."""
        if not _is_of_words(instruction):
            return False
        if instruction.op1_kind == OpKind.MEMORY:
            found = self._word(self._address(instruction))
        else:
            found = self._general[number_of(instruction.op1_register)]
        if found is None:
            return False
        if instruction.op0_kind == OpKind.MEMORY:
            self._stored[self._address(instruction)] = found
        else:
            self._general[number_of(instruction.op0_register)] = found
        return True

    def _push(self, instruction: Instruction) -> bool:
        immediate = instruction.op0_kind != OpKind.REGISTER
        self._pushed(instruction.immediate(0) if immediate else self._general[number_of(instruction.op0_register)])
        return True

    def _pop(self, instruction: Instruction) -> bool:
        found = self._popped()
        if found is not None:
            self._general[number_of(instruction.op0_register)] = found
        return found is not None

    def _push_flags(self, _instruction: Instruction) -> bool:
        self._pushed(self._flags)
        return True

    def _pop_flags(self, _instruction: Instruction) -> bool:
        """Follow ``popf``, but for the trap flag: if a debugger has stepped over ``pushf``, it is set there."""
        found = self._popped()
        self._flags = self._flags if found is None else found & ~_TRAP
        return found is not None

    def _move_stack_pointer(self, instruction: Instruction) -> bool:
        """Follow an addition, a subtraction or an alignment of the stack pointer by a constant."""
        if instruction.op0_kind != OpKind.REGISTER or instruction.op0_register != _STACK_POINTER:
            return False
        by, rsp = instruction.immediate(1), self._general[asm.RSP]
        moved = {Mnemonic.ADD: rsp + by, Mnemonic.SUB: rsp - by, Mnemonic.AND: rsp & by}[instruction.mnemonic]
        self._general[asm.RSP] = moved & _WORD
        return True

    def _lahf(self, _instruction: Instruction) -> bool:
        rax = self._general[asm.RAX] & ~0xFF00
        self._general[asm.RAX] = rax | (self._flags & _BY_LAHF | 2) << 8
        return True

    def _sahf(self, _instruction: Instruction) -> bool:
        self._flags = self._flags & ~_BY_LAHF | self._general[asm.RAX] >> 8 & _BY_LAHF
        return True

    def _overflow_to_al(self, instruction: Instruction) -> bool:
        if instruction.op0_kind != OpKind.REGISTER or instruction.op0_register != _AL:
            return False
        self._general[asm.RAX] = self._general[asm.RAX] & ~0xFF | bool(self._flags & _OVERFLOW)
        return True

    def _overflow_from_al(self, instruction: Instruction) -> bool:
        """Follow ``add al, 127``. The flags besides OF are of no use: sahf comes next."""
        if instruction.immediate(1) != 127:
            return False
        overflows = (self._general[asm.RAX] & 0xFF) in range(1, 128)
        self._flags = self._flags & ~_OVERFLOW | overflows * _OVERFLOW
        return True

    def _clear_direction(self, _instruction: Instruction) -> bool:
        self._flags &= ~_DIRECTION
        return True

    # Instructions that are left out, since they do the instrument's work.

    def _is_of_instrument(self, instruction: Instruction) -> bool:
        if instruction.flow_control == decode.CALL:
            return not self._calls_advice(self.rip)
        if instruction.flow_control != decode.NEXT or writes(instruction) & _STACK:
            return False
        if instruction.segment_prefix == _GS:
            return True  # the thread's block
        if OpKind.MEMORY in (instruction.op0_kind, instruction.op1_kind):
            return _is_harmless(instruction)
        return instruction.code in _COMPUTING or instruction.mnemonic in _COMPARING

    # The stack.

    def _word(self, address: int) -> int | None:
        if address in self._stored:
            return self._stored[address]
        content = self._memory.some(address, 8)
        return int.from_bytes(content, "little") if len(content) == 8 else None

    def _pushed(self, value: int) -> None:
        self._general[asm.RSP] = self._general[asm.RSP] - 8 & _WORD
        self._stored[self._general[asm.RSP]] = value & _WORD

    def _popped(self) -> int | None:
        """The word at the stack pointer, which moves over it; None if it cannot be read."""
        found = self._word(self._general[asm.RSP])
        self._general[asm.RSP] = self._general[asm.RSP] + 8 & _WORD
        return found


def _on_stack(instruction: Instruction) -> bool:
    """Whether the memory operand is [rsp + n] or [rbp + n]."""
    return (
        instruction.memory_base in (Register.RSP, Register.RBP)
        and instruction.memory_index == Register.NONE
        and instruction.segment_prefix == Register.NONE
    )


def _is_stored_in_block(instruction: Instruction) -> bool:
    """Whether the instruction writes to the thread's block, or to a ring of it."""
    return (
        instruction.segment_prefix == _GS
        and instruction.op0_kind == OpKind.MEMORY
        and instruction.mnemonic not in _COMPARING
    )


def _restores(instruction: Instruction) -> bool:
    """Whether the instruction loads a register from the stack."""
    loads = instruction.code == Code.MOV_R64_RM64 and instruction.op1_kind == OpKind.MEMORY and _on_stack(instruction)
    return loads or instruction.code == Code.POP_R64


def _is_of_words(instruction: Instruction) -> bool:
    """Whether the operands of a move are registers and words on the stack."""
    return OpKind.MEMORY not in (instruction.op0_kind, instruction.op1_kind) or _on_stack(instruction)


def _is_harmless(instruction: Instruction) -> bool:
    """Whether an instruction of a patch with a memory operand only reads, by rip, what gilk has laid there, computes an
    address, or completes a word that was pushed for a function."""
    if instruction.mnemonic in _COMPARING:
        return not _on_stack(instruction)
    if instruction.code == Code.LEA_R64_M:
        return instruction.memory_base in (Register.RSP, Register.RAX)
    if instruction.code == Code.MOV_RM32_IMM32:
        return _on_stack(instruction) and instruction.memory_displacement == 4
    return instruction.code == Code.ADD_R64_RM64 and instruction.is_ip_rel_memory_operand


def _is_of_function(instruction: Instruction) -> bool:
    """Whether an instruction of a function can be left out: it does not change the stack pointer, does not go elsewhere
    for good, and restores no vector registers, which are not followed."""
    if instruction.mnemonic in _RESTORING or _has_vectors(instruction):
        return False
    if instruction.flow_control in (decode.CALL, decode.CALL_INDIRECT):
        return True
    return instruction.flow_control == decode.NEXT and not writes(instruction) & _STACK


def _has_vectors(instruction: Instruction) -> bool:
    """Whether vector registers are operands of the instruction."""
    return any(
        RegisterExt.is_vector_register(instruction.op_register(operand))
        for operand in range(instruction.op_count)
        if instruction.op_kind(operand) == OpKind.REGISTER
    )


_FOLLOWED: Final[dict[int, Callable[[RestOfPatch, Instruction], bool]]] = {
    Code.LEA_R64_M: RestOfPatch._lea,
    Code.MOV_RM64_R64: RestOfPatch._move,
    Code.MOV_R64_RM64: RestOfPatch._move,
    Code.PUSH_R64: RestOfPatch._push,
    Code.POP_R64: RestOfPatch._pop,
    Code.ADD_RM64_IMM8: RestOfPatch._move_stack_pointer,
    Code.ADD_RM64_IMM32: RestOfPatch._move_stack_pointer,
    Code.SUB_RM64_IMM8: RestOfPatch._move_stack_pointer,
    Code.SUB_RM64_IMM32: RestOfPatch._move_stack_pointer,
    Code.AND_RM64_IMM8: RestOfPatch._move_stack_pointer,
    Code.PUSHQ_IMM32: RestOfPatch._push,
    Code.PUSHQ_IMM8: RestOfPatch._push,
    Code.PUSHFQ: RestOfPatch._push_flags,
    Code.POPFQ: RestOfPatch._pop_flags,
    Code.LAHF: RestOfPatch._lahf,
    Code.SAHF: RestOfPatch._sahf,
    Code.SETO_RM8: RestOfPatch._overflow_to_al,
    Code.ADD_AL_IMM8: RestOfPatch._overflow_from_al,
    Code.CLD: RestOfPatch._clear_direction,
}
