# SPDX-License-Identifier: LGPL-2.1-or-later
"""Follows the addresses of one object that registers hold forwards through a function: what instructions make of them,
and where they escape.

A register holds no such address, a known one, or SOMEWHERE: an address somewhere in the object, or perhaps none; such a
value is followed, too. The result of a comparison, or the difference of two addresses, is not an address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from iced_x86 import Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind

from gilk.analysis.memory_uses import is_string
from gilk.analysis.references import AddressRange
from gilk.arch import decode as x86
from gilk.arch.effects import PRESERVED, number_of

#: The register holds an address somewhere in the object, or perhaps no address of it at all.
SOMEWHERE: Final = -1
#: The addresses that registers hold, or SOMEWHERE, by the registers' numbers. Registers that are not in it hold no
#: address of the object.
Held = dict[int, int]

_information: Final = InstructionInfoFactory()
_WRITES: Final = frozenset({OpAccess.WRITE, OpAccess.READ_WRITE, OpAccess.COND_WRITE, OpAccess.READ_COND_WRITE})
_IMMEDIATES: Final = frozenset(range(OpKind.IMMEDIATE8, OpKind.IMMEDIATE32TO64 + 1))
_COMPARES: Final = frozenset({Mnemonic.CMP, Mnemonic.TEST, Mnemonic.BT, Mnemonic.NOP, Mnemonic.ENDBR64})
_SUMS: Final = frozenset({Mnemonic.ADD, Mnemonic.SUB})
_STEPS: Final = {Mnemonic.INC: 1, Mnemonic.DEC: -1}
#: The registers that hold arguments, a bit each.
ARGUMENTS: Final = sum(1 << number for number in (7, 6, 2, 1, 8, 9))
#: The numbers of the registers that hold what a function returns.
RESULTS: Final = frozenset({0, 2})
FIRST_RESULT: Final = 0
_STRINGS: Final = (6, 7)  # rsi, rdi


class Escapes(Exception):
    """An address escapes at the instruction, so that it cannot be followed; ``args[0]`` says how."""


def joined(one: Held, other: Held) -> Held:
    return {
        number: one[number] if number in one and one.get(number) == other.get(number) else SOMEWHERE
        for number in (*one, *other)
    }


class AddressRules:
    """The rules for what instructions do with addresses of ``objects``. ``slots``: words of data that hold one such
    address each and are never changed. ``absolute``: numbers in instructions may be addresses.
    """

    def __init__(
        self, objects: AddressRange, slots: dict[int, int], absolute: bool, taken: Callable[[int], int]
    ) -> None:
        """``taken`` returns the registers, a bit each, that the function at an address reads before it writes them; for
        address 0, those that an unknown function may read.
        """
        self._object, self._slots, self._absolute, self._taken = objects, slots, absolute, taken

    def after(self, held: Held, instruction: Instruction) -> Held:
        """The addresses that registers hold behind the instruction. Raises Escapes."""
        mnemonic, flow = instruction.mnemonic, instruction.flow_control
        if mnemonic in _COMPARES:
            return held
        if flow != x86.NEXT:
            return self._across(held, instruction)
        if not held and not self._made(instruction):
            return held
        if is_string(instruction):  # rsi and rdi move along
            return {number: SOMEWHERE if number in _STRINGS else value for number, value in held.items()}
        value = self._value(held, instruction)
        self._check_sources(held, instruction, value)
        return _written(held, instruction, value)

    def address(self, held: Held, instruction: Instruction) -> int | None:
        """The address of the memory operand, if it is one of the object's or computed from one; None otherwise."""
        return self._operand(held, instruction, self._absolute)

    def _operand(self, held: Held, instruction: Instruction, absolute: bool) -> int | None:
        if instruction.is_ip_rel_memory_operand:
            address = int(instruction.ip_rel_memory_address)
            return address if self._object.has(address) else None
        base, index = number_of(instruction.memory_base), number_of(instruction.memory_index)
        displacement = x86.signed(instruction.memory_displacement)
        if index in held:
            return SOMEWHERE
        if base in held:
            known = held[base]
            return SOMEWHERE if known == SOMEWHERE or instruction.memory_index else known + displacement
        if absolute and self._object.has(displacement):
            alone = not instruction.memory_index and not instruction.memory_base
            return displacement if alone else SOMEWHERE
        return None

    def _made(self, instruction: Instruction) -> bool:
        """Whether the instruction may produce an address of the object though no register holds one."""
        if any(instruction.op_kind(n) == OpKind.MEMORY for n in range(instruction.op_count)):
            if instruction.is_ip_rel_memory_operand:
                address = instruction.ip_rel_memory_address
                return self._object.has(address) or address in self._slots
            return self._absolute and self._object.has(x86.signed(instruction.memory_displacement))
        return self._immediate(instruction) is not None

    def _immediate(self, instruction: Instruction) -> int | None:
        for n in range(instruction.op_count):
            if instruction.op_kind(n) in _IMMEDIATES and self._object.has(value := instruction.immediate(n)):
                return int(value) if self._absolute else None
        return None

    def _value(self, held: Held, instruction: Instruction) -> int | None:
        """The address that the instruction leaves in its first operand; None if it leaves none."""
        mnemonic = instruction.mnemonic
        if instruction.op0_kind != OpKind.REGISTER:
            return None
        if mnemonic == Mnemonic.LEA:
            return self.address(held, instruction)
        if mnemonic == Mnemonic.MOV:
            return self._moved(held, instruction)
        old = held.get(number_of(instruction.op0_register))
        if mnemonic in _SUMS:
            return self._sum(held, instruction, old)
        if mnemonic in _STEPS and old is not None:
            return old if old == SOMEWHERE else old + _STEPS[mnemonic]
        if mnemonic == Mnemonic.AND and old is not None and instruction.op1_kind in _IMMEDIATES:
            return SOMEWHERE
        if _is_cmov(instruction):
            return SOMEWHERE if old is not None or self._moved(held, instruction) is not None else None
        return None

    def _moved(self, held: Held, instruction: Instruction) -> int | None:
        if instruction.op1_kind == OpKind.REGISTER:
            return held.get(number_of(instruction.op1_register))
        if instruction.op1_kind == OpKind.MEMORY:
            whole = instruction.is_ip_rel_memory_operand and x86.memory_bytes(instruction) == 8
            return self._slots.get(instruction.ip_rel_memory_address) if whole else None
        return self._immediate(instruction)

    def _sum(self, held: Held, instruction: Instruction, old: int | None) -> int | None:
        subtracts = instruction.mnemonic == Mnemonic.SUB
        if instruction.op1_kind in _IMMEDIATES:
            number = x86.signed(instruction.immediate(1))
            if old is None:
                return SOMEWHERE if self._immediate(instruction) is not None else None
            return old if old == SOMEWHERE else old - number if subtracts else old + number
        other = self._moved(held, instruction)
        if subtracts:
            return None if old is not None and other is not None else SOMEWHERE if old is not None else None
        return SOMEWHERE if old is not None or other is not None else None

    def _check_sources(self, held: Held, instruction: Instruction, value: int | None) -> None:
        """Raise Escapes if the instruction takes an address and leaves the result in a place that is not followed."""
        mnemonic = instruction.mnemonic
        if mnemonic == Mnemonic.LEA:
            return
        if mnemonic == Mnemonic.XCHG and instruction.op1_kind == OpKind.REGISTER:
            return
        if self._immediate(instruction) is not None and value is None:
            raise Escapes("as a number")
        if self._slot_read(instruction) and value is None and mnemonic != Mnemonic.CMP:
            raise Escapes("from a table of addresses")
        for n in range(instruction.op_count):
            if instruction.op_kind(n) != OpKind.REGISTER or number_of(instruction.op_register(n)) not in held:
                continue
            if n == 0 and instruction.op0_kind == OpKind.REGISTER:
                if _reads_first(instruction) and value is None and not _is_difference(instruction):
                    raise Escapes("by arithmetic")
                continue
            if instruction.op0_kind == OpKind.MEMORY:
                raise Escapes("into memory")
            if value is None and not _is_difference(instruction):
                raise Escapes("by arithmetic")

    def _slot_read(self, instruction: Instruction) -> bool:
        return instruction.is_ip_rel_memory_operand and instruction.ip_rel_memory_address in self._slots

    def _across(self, held: Held, instruction: Instruction) -> Held:
        if instruction.flow_control in (x86.CALL, x86.CALL_INDIRECT) and not x86.is_system_call(instruction):
            target = instruction.near_branch_target if x86.is_direct_call(instruction) else 0
            self._check_passed(held, ARGUMENTS & self._taken(target), "to a function that is called")
            return {number: value for number, value in held.items() if PRESERVED >> number & 1}
        if x86.is_system_call(instruction):
            self._check_passed(held, (1 << 16) - 1, "to the kernel")
        return held

    def _check_passed(self, held: Held, registers: int, where: str) -> None:
        if any(registers >> number & 1 for number in held):
            raise Escapes(where)

    def check_jump(self, held: Held, target: int) -> None:
        """Check a jump to another function at ``target``, 0 if that is not known. Raises Escapes."""
        self._check_passed(held, ARGUMENTS & self._taken(target), "to a function that is jumped to")


def _written(held: Held, instruction: Instruction, value: int | None) -> Held:
    if instruction.mnemonic == Mnemonic.XCHG and instruction.op1_kind == OpKind.REGISTER:
        one, other = number_of(instruction.op0_register), number_of(instruction.op1_register)
        swapped = {one: held.get(other), other: held.get(one)}
        return {n: a for n, a in (held | swapped).items() if a is not None}
    found = dict(held)
    for used in _information.info(instruction).used_registers():
        if used.access in _WRITES:
            found.pop(number_of(used.register), None)
    if value is not None:
        found[number_of(instruction.op0_register)] = value
    return found


def _reads_first(instruction: Instruction) -> bool:
    """Whether the instruction reads its first operand."""
    if instruction.mnemonic in (Mnemonic.XOR, Mnemonic.SUB) and instruction.op0_register == instruction.op1_register:
        return False
    return _information.info(instruction).op0_access in (OpAccess.READ, OpAccess.READ_WRITE, OpAccess.COND_READ)


def _is_difference(instruction: Instruction) -> bool:
    registers = instruction.op0_kind == instruction.op1_kind == OpKind.REGISTER
    return registers and instruction.mnemonic in (Mnemonic.SUB, Mnemonic.XOR)


def _is_cmov(instruction: Instruction) -> bool:
    return Mnemonic.CMOVA <= instruction.mnemonic <= Mnemonic.CMOVS
