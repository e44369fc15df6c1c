# SPDX-License-Identifier: LGPL-2.1-or-later
"""Works out where a context that waits amid a patch goes on in the original code, and with which registers.

A patch saves registers that the program still needs, runs its instrument, restores them and goes on (splice/frame.py).
A context may wait there for ever: a signal handler that has switched stacks need not come back. So the rest of the
patch is followed on paper, without its instrument: only what restores the stack pointer, registers and flags is
computed. Registers that the patch does not restore are dead to the program, whatever they hold.

The context's stack is only read. It may be in use by others, if the context will never go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from iced_x86 import Code, Instruction, Mnemonic, OpKind, Register, RegisterExt

from gilk.arch import asm, decode
from gilk.arch.effects import number_of, writes
from gilk.targets.frames import ContextRegisters
from gilk.targets.memory import Memory
from gilk.targets.places import Places

_LONGEST: Final = 15  # bytes of an instruction
_MOST: Final = 2000  # instructions that are followed
_WORD: Final = (1 << 64) - 1
_OVERFLOW: Final = 1 << 11
_TRAP: Final = 1 << 8
_DIRECTION: Final = 1 << 10
_BY_LAHF: Final = 0xD5  # the flags that lahf and sahf move: SF, ZF, AF, PF, CF
_STACK: Final = 1 << asm.RSP
#: How a relocated call begins (splice/relocate.py): with a call of what follows it, past a byte that is never executed.
_CALL: Final = asm.CALL32 + b"\x01\0\0\0" + asm.INT3
_LONGEST_CALL: Final = len(_CALL) + 3 * _LONGEST  # bytes
_LEA_R11: Final = b"\x4c\x8d\x1d"  # lea r11, [rip + rel32], in front of calls of advice (splice/access.py)
_LEA_R11_SIZE: Final = 7
_JUMPS: Final = frozenset((Code.JMP_REL32_64, Code.JMP_REL8_64))
#: What instruments do with registers alone: they compute in those that they have saved, or that are dead.
_COMPUTING: Final = frozenset(
    (
        Code.RDFSBASE_R64, Code.RDTSC, Code.SHL_RM64_IMM8, Code.OR_R64_RM64, Code.OR_RM64_R64, Code.AND_RM64_IMM32,
        Code.AND_RM32_IMM32, Code.AND_EAX_IMM32, Code.AND_RAX_IMM32, Code.ADD_RM64_R64, Code.ADD_R64_RM64,
        Code.MOV_R32_IMM32, Code.MOV_RM64_IMM32,
    )
)  # fmt: skip
_STACK_POINTER: Final[int] = Register.RSP
_AL: Final[int] = Register.AL
_GS: Final[int] = Register.GS
_OTHER_BASES: Final = frozenset((Register.FS, _GS))  # segments that do not begin at 0
#: What restores vector registers from memory.
_RESTORING: Final = frozenset((Mnemonic.XRSTOR, Mnemonic.XRSTOR64, Mnemonic.FXRSTOR, Mnemonic.FXRSTOR64))
_COMPARING: Final = frozenset((Mnemonic.CMP, Mnemonic.TEST, Mnemonic.BT))


def way_out(
    registers: ContextRegisters, places: Places, memory: Memory, is_ours: Callable[[int], bool]
) -> ContextRegisters | None:
    """The registers with which a context that has ``registers``, amid a patch of ``places`` or inside a function that
    such a patch has called, goes on without the patch: at the original instruction that comes next. ``is_ours``:
    whether an address is in gilk's memory.

    None if the rest does more than restore registers (advice decides what the program does), or if it goes to another
    stack.
    """
    called = _before_call(registers, places, memory)
    if called is not None:
        return called
    rest = _Rest(registers, places, memory)
    for _ in range(_MOST):
        place = places.original(rest.rip)
        if place is not None:
            return rest.registers(place[0])
        if not is_ours(rest.rip):
            return rest.registers(rest.rip) if rest.jumped else None
        if not rest.step():
            return None
    return None


def _before_call(registers: ContextRegisters, places: Places, memory: Memory) -> ContextRegisters | None:
    """The registers of a context amid a relocated call, led back to before the call; None if it is not amid one. All
    that the relocated call has done is to write below the stack pointer."""
    start = places.begun(registers.rip)
    place = None if start is None else places.original(start)
    if start is None or place is None or registers.rip not in _parts_of_call(start, memory):
        return None
    general = list(registers.general)
    general[asm.RSP] = general[asm.RSP] + 8 & _WORD
    return replace(registers, general=tuple(general), rip=place[0])


def _parts_of_call(start: int, memory: Memory) -> tuple[int, ...]:
    """The addresses of the instructions of a relocated call that begins at ``start``, but for the first; none if no
    relocated call begins there."""
    code = memory.some(start, _LONGEST_CALL)
    if not code.startswith(_CALL):
        return ()
    found = []
    for instruction in decode.decode(code[len(_CALL) :], start + len(_CALL)):
        found.append(int(instruction.ip))
        if instruction.flow_control != decode.NEXT:
            break
    return tuple(found)


class _Rest:
    """The rest of a patch, followed from where a context is. ``jumped``: the last step was a jump.

    In functions, whatever concerns other memory than the stack is left out: by any way to its end, a function restores
    what it has saved.
    """

    def __init__(self, registers: ContextRegisters, places: Places, memory: Memory) -> None:
        self._general = list(registers.general)
        self._flags, self.rip, self.jumped = registers.flags, registers.rip, False
        self._places = places
        self._memory = memory
        self._passed: set[int] = set()  # the conditional jumps that were not taken
        self._stored: dict[int, int] = {}  # what the rest of the patch has stored on the stack

    def registers(self, rip: int) -> ContextRegisters:
        return ContextRegisters(tuple(self._general), self._flags, rip)

    def step(self) -> bool:
        """Follow one instruction. Returns whether that is possible."""
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
        self.rip = int(instruction.next_ip)
        return True

    def _jump(self, instruction: Instruction) -> bool:
        """Follow a jump; an indirect one is the end of a call that calls its patch (splice/tactics/call.py)."""
        if instruction.code in _JUMPS:
            self.rip = int(instruction.near_branch_target)
            return True
        if not self._places.in_patch(self.rip):
            return self._return()  # a call of another function, which then returns for this one
        if instruction.op0_kind == OpKind.REGISTER:
            self.rip = self._general[number_of(instruction.op0_register)]
            return True
        found = None if instruction.segment_prefix in _OTHER_BASES else self._word(self._address(instruction))
        self.rip = self.rip if found is None else found
        return found is not None

    def _branch(self, instruction: Instruction) -> bool:
        """Follow a conditional jump: not taken, but the second time, since it is the way out of a loop then. All ways
        meet again where registers are restored."""
        taken = self.rip in self._passed
        self._passed.add(self.rip)
        return self._go_on(int(instruction.near_branch_target if taken else instruction.next_ip))

    def _return(self) -> bool:
        """Follow a return from a function: to a function, or to a patch behind a call that is not one of advice."""
        found = self._popped()
        if found is None or self._memory.some(found - asm.CALL_SIZE, 1) != asm.CALL32:
            return not (found is None or self._places.in_patch(found)) and self._go_on(found)
        return not self._calls_advice(found - asm.CALL_SIZE) and self._go_on(found)

    def _go_on(self, address: int) -> bool:
        self.rip = address
        return True

    def _calls_advice(self, call: int) -> bool:
        """Whether the call at this address is one of advice."""
        return self._memory.some(call - _LEA_R11_SIZE, len(_LEA_R11)) == _LEA_R11

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

    # What restores the program's registers. Each returns whether the instruction was one of those that do.

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

    # What is left out, since it is the instrument's work.

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


_FOLLOWED: Final[dict[int, Callable[[_Rest, Instruction], bool]]] = {
    Code.LEA_R64_M: _Rest._lea,
    Code.MOV_RM64_R64: _Rest._move,
    Code.MOV_R64_RM64: _Rest._move,
    Code.PUSH_R64: _Rest._push,
    Code.POP_R64: _Rest._pop,
    Code.ADD_RM64_IMM8: _Rest._move_stack_pointer,
    Code.ADD_RM64_IMM32: _Rest._move_stack_pointer,
    Code.SUB_RM64_IMM8: _Rest._move_stack_pointer,
    Code.SUB_RM64_IMM32: _Rest._move_stack_pointer,
    Code.AND_RM64_IMM8: _Rest._move_stack_pointer,
    Code.PUSHQ_IMM32: _Rest._push,
    Code.PUSHQ_IMM8: _Rest._push,
    Code.PUSHFQ: _Rest._push_flags,
    Code.POPFQ: _Rest._pop_flags,
    Code.LAHF: _Rest._lahf,
    Code.SAHF: _Rest._sahf,
    Code.SETO_RM8: _Rest._overflow_to_al,
    Code.ADD_AL_IMM8: _Rest._overflow_from_al,
    Code.CLD: _Rest._clear_direction,
}
