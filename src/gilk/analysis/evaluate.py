# SPDX-License-Identifier: LGPL-2.1-or-later
"""Computes the value that a register holds at a point, backwards over the control-flow graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from iced_x86 import Instruction, Mnemonic, OpKind, Register

from gilk.analysis import values
from gilk.analysis.definitions import Definition, Definitions, Reaching
from gilk.analysis.model import Block
from gilk.analysis.values import Load, Unknown, Value
from gilk.arch import decode as x86
from gilk.arch.effects import number_of

_RSP: Final = 4
_RAX: Final = 0
_DEPTH: Final = 60  # the most instructions in a chain of definitions
_MERGE: Final = -(1 << 63)  # points from this one down stand for sets of definitions
_MERGED: Final = 8  # the most definitions that are compared; if there are more, they are taken to differ
_IMMEDIATES: Final[frozenset[int]] = frozenset(range(OpKind.IMMEDIATE8, OpKind.IMMEDIATE32TO64 + 1))


class Evaluator:
    """Computes values in a function, over those of its blocks that are known so far."""

    def __init__(self, reaching: Reaching) -> None:
        self.reaching = reaching
        self._known: dict[Definition, Value] = {}
        self._merged: dict[tuple[int, Definitions], int] = {}
        self._depth = 0

    def targets(self, block: Block) -> list[tuple[Block, Value]]:
        """The targets of the indirect jump that ends ``block``: values, each with the block that computes it. A jump by
        a register that several instructions may set has several.
        """
        position = len(self.body(block)) - 1
        jump = self.body(block)[position]
        if int(jump.op0_kind) != OpKind.REGISTER:
            return [(block, self.operand(block, position, jump, 0))]
        number = number_of(jump.op0_register)
        definitions = self.reaching.before(block, position, number)
        if len(definitions) == 1:
            return [(block, self.register(block, position, number))]
        return [(self.reaching.blocks[one.block], self._defined(one)) for one in sorted(definitions)]

    def body(self, block: Block) -> list[Instruction]:
        return self.reaching.body(block)

    def operand(self, block: Block, position: int, instruction: Instruction, n: int) -> Value:
        """The value of operand ``n`` of the instruction at ``position`` in ``block``, before it executes."""
        kind = int(instruction.op_kind(n))
        if kind == OpKind.REGISTER:
            return self._register_operand(block, position, instruction.op_register(n))
        if kind in _IMMEDIATES:
            return Value(_immediate(instruction, n))
        if kind == OpKind.MEMORY:
            return values.of(Load(x86.memory_bytes(instruction), False, self.address(block, position, instruction)))
        return self._unknown(instruction, 16)

    def address(self, block: Block, position: int, instruction: Instruction) -> Value:
        """The address of the instruction's memory operand."""
        if instruction.is_ip_rel_memory_operand:
            return Value(instruction.ip_rel_memory_address)
        result = Value(x86.signed(instruction.memory_displacement))
        if int(instruction.memory_base) != x86.NO_REGISTER:
            result = result.plus(self._register_operand(block, position, instruction.memory_base))
        if int(instruction.memory_index) != x86.NO_REGISTER:
            index = self._register_operand(block, position, instruction.memory_index)
            result = result.plus(index, instruction.memory_index_scale)
        return result

    def register(self, block: Block, position: int, number: int) -> Value:
        """The value of register ``number`` before the instruction at ``position`` in ``block``."""
        if number == _RSP:
            return values.of(Unknown(_RSP, 0))  # pushes between two uses of a slot are not modelled
        definitions = self.reaching.before(block, position, number)
        if 0 < len(definitions) <= _MERGED:
            found = {self._defined(one) for one in definitions}
            if len(found) == 1:
                return found.pop()
        return values.of(Unknown(number, _MERGE - self._merged.setdefault((number, definitions), len(self._merged))))

    def _defined(self, definition: Definition) -> Value:
        """The value that one instruction leaves in the place that it sets."""
        known = self._known.get(definition)
        if known is None:
            block = self.reaching.blocks[definition.block]
            unknown = values.of(Unknown(definition.place, self._point(block, definition.position)))
            if definition.position < 0 or self._depth > _DEPTH:
                return unknown
            self._known[definition] = unknown  # the answer for a loop that needs this value to compute it
            self._depth += 1
            known = self._known[definition] = self._result(block, definition.position, definition.place) or unknown
            self._depth -= 1
        return known

    def _point(self, block: Block, position: int) -> int:
        return -block.start if position < 0 else self.body(block)[position].ip

    def _register_operand(self, block: Block, position: int, register: int) -> Value:
        number = number_of(register)
        if number < 0:
            return values.of(Unknown(register + 100, self.body(block)[position].ip))
        value = self.register(block, position, number)
        return value if register >= Register.EAX else values.narrowed(value, 256 if register < Register.AX else 65536)

    def _unknown(self, instruction: Instruction, number: int) -> Value:
        return values.of(Unknown(number, instruction.ip))

    def _result(self, block: Block, position: int, place: int) -> Value | None:
        """The value that the instruction leaves in its destination, by the rule for its mnemonic; None if there is no
        rule.
        """
        instruction = self.body(block)[position]
        if int(instruction.op0_kind) == OpKind.MEMORY:
            whole = instruction.mnemonic == Mnemonic.MOV and x86.memory_bytes(instruction) == 8
            return self.operand(block, position, instruction, 1) if whole else None
        rule = _RULES.get(instruction.mnemonic)
        if rule is None or number_of(_destination(instruction)) != place:
            return None
        return rule(self, block, position, instruction)


def _destination(instruction: Instruction) -> int:
    register: int = instruction.op0_register
    if instruction.mnemonic == Mnemonic.CDQE:
        return Register.RAX
    return register if instruction.op0_kind == OpKind.REGISTER else Register.NONE


def _immediate(instruction: Instruction, n: int) -> int:
    """The immediate, sign-extended to the width of the operation; that of a byte operation unchanged."""
    kind = int(instruction.op_kind(n))
    if kind in (OpKind.IMMEDIATE32, OpKind.IMMEDIATE8TO32):
        return x86.signed(instruction.immediate(n), 32)
    if kind in (OpKind.IMMEDIATE16, OpKind.IMMEDIATE8TO16):
        return x86.signed(instruction.immediate(n), 16)
    return x86.signed(instruction.immediate(n))


Rule = Callable[[Evaluator, Block, int, Instruction], Value | None]


def _move(e: Evaluator, block: Block, i: int, instruction: Instruction) -> Value | None:
    return e.operand(block, i, instruction, 1) if _wide(instruction) else None


def _move_signed(e: Evaluator, block: Block, i: int, instruction: Instruction) -> Value | None:
    value = e.operand(block, i, instruction, 1)
    atom = value.atom
    if instruction.op1_kind == OpKind.MEMORY and isinstance(atom, Load):
        return values.of(atom._replace(signed=True))
    return value.signed()


def _extend(e: Evaluator, block: Block, i: int, instruction: Instruction) -> Value | None:
    return e.register(block, i, _RAX).signed()


def _lea(e: Evaluator, block: Block, i: int, instruction: Instruction) -> Value | None:
    return e.address(block, i, instruction) if _wide(instruction) else None


def _add(e: Evaluator, block: Block, i: int, instruction: Instruction) -> Value | None:
    if not _wide(instruction):
        return None
    return e.operand(block, i, instruction, 0).plus(e.operand(block, i, instruction, 1))


def _subtract(e: Evaluator, block: Block, i: int, instruction: Instruction) -> Value | None:
    if not _wide(instruction):
        return None
    return e.operand(block, i, instruction, 0).plus(e.operand(block, i, instruction, 1), -1)


def _increment(e: Evaluator, block: Block, i: int, instruction: Instruction) -> Value | None:
    step = 1 if instruction.mnemonic == Mnemonic.INC else -1
    return e.operand(block, i, instruction, 0).plus(Value(step)) if _wide(instruction) else None


def _negate(e: Evaluator, block: Block, i: int, instruction: Instruction) -> Value | None:
    return e.operand(block, i, instruction, 0).scaled(-1) if _wide(instruction) else None


def _shift_left(e: Evaluator, block: Block, i: int, instruction: Instruction) -> Value | None:
    count = e.operand(block, i, instruction, 1)
    if count.terms or not 0 <= count.const < 32 or not _wide(instruction):
        return None
    return e.operand(block, i, instruction, 0).scaled(1 << count.const)


def _shift_right(e: Evaluator, block: Block, i: int, instruction: Instruction) -> Value | None:
    count = e.operand(block, i, instruction, 1)
    value = e.operand(block, i, instruction, 0)
    if count.terms or not 0 < count.const < 64:
        return None
    atom = value.atom
    width = 8 * x86.register_bytes(instruction.op0_register)
    limit = min(values.limit_of(atom) if atom is not None else 1 << width, 1 << width)
    return values.narrowed(value, max(limit >> count.const, 1), count.const)


def _mask(e: Evaluator, block: Block, i: int, instruction: Instruction) -> Value | None:
    mask = e.operand(block, i, instruction, 1)
    value = e.operand(block, i, instruction, 0)
    if mask.terms or not 0 <= mask.const < 1 << 31:
        return None
    return values.narrowed(value, mask.const + 1)


def _exclusive_or(e: Evaluator, block: Block, i: int, instruction: Instruction) -> Value | None:
    same = instruction.op1_kind == OpKind.REGISTER and instruction.op0_register == instruction.op1_register
    return values.ZERO if same and _wide(instruction) else None


def _multiply(e: Evaluator, block: Block, i: int, instruction: Instruction) -> Value | None:
    if instruction.op_count != 3:
        return None
    return e.operand(block, i, instruction, 1).scaled(x86.signed(instruction.immediate(2)))


def _wide(instruction: Instruction) -> bool:
    return instruction.op0_kind == OpKind.REGISTER and instruction.op0_register >= Register.EAX


_RULES: Final[dict[int, Rule]] = {
    Mnemonic.MOV: _move,
    Mnemonic.MOVZX: _move,
    Mnemonic.MOVSX: _move_signed,
    Mnemonic.MOVSXD: _move_signed,
    Mnemonic.CDQE: _extend,
    Mnemonic.LEA: _lea,
    Mnemonic.ADD: _add,
    Mnemonic.SUB: _subtract,
    Mnemonic.INC: _increment,
    Mnemonic.DEC: _increment,
    Mnemonic.NEG: _negate,
    Mnemonic.SHL: _shift_left,
    Mnemonic.SAL: _shift_left,
    Mnemonic.SHR: _shift_right,
    Mnemonic.AND: _mask,
    Mnemonic.XOR: _exclusive_or,
    Mnemonic.IMUL: _multiply,
}
