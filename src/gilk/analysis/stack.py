# SPDX-License-Identifier: LGPL-2.1-or-later
"""Computes how deep the stack is: a jump at the depth of the entry may be a tail call, a deeper one cannot."""

from __future__ import annotations

from typing import Final, NamedTuple

from iced_x86 import Instruction, Mnemonic, OpKind, Register

from gilk.analysis.definitions import Reaching
from gilk.analysis.model import Block
from gilk.arch import decode as x86
from gilk.arch.effects import RSP, register_bit, writes

_RBP: Final = 1 << 5
_IMMEDIATES: Final[frozenset[int]] = frozenset({OpKind.IMMEDIATE8TO64, OpKind.IMMEDIATE32TO64})


class Depth(NamedTuple):
    """The number of bytes pushed since the entry, and the same for the address in rbp; None if it is not known."""

    stack: int | None
    frame: int | None

    @property
    def may_leave(self) -> bool:
        """Whether a jump out of the function is possible here."""
        return self.stack is not None and self.stack <= 0


# The depth at which a cold part, or a landing pad, is entered: deeper than the function's entry, by an unknown amount.
AMID: Final = 1
# The depth once the stack was replaced, by longjmp or a switch to another context. No function goes on after that.
ELSEWHERE: Final = -(1 << 40)
UNKNOWN: Final = Depth(None, None)


def depths(reaching: Reaching, entry: int) -> dict[int, Depth]:
    """The depth at the start of each block; the first way found from ``entry``, or else from another way in,
    decides.
    """
    found = {block.start: Depth(AMID, None) for block in reaching.blocks.values() if _is_root(reaching, block)}
    found[entry] = Depth(0, None)
    todo = [*(start for start in found if start != entry), entry]  # the entry's ways first
    while todo:
        block = reaching.blocks.get(todo.pop())
        if block is None:
            continue
        depth = found[block.start]
        for instruction in reaching.body(block):
            depth = step(depth, instruction)
        for successor in block.successors:
            if successor not in found:
                found[successor] = depth
                todo.append(successor)
    return found


def _is_root(reaching: Reaching, block: Block) -> bool:
    return block.start not in reaching.predecessors


def step(depth: Depth, instruction: Instruction) -> Depth:
    """The depth after one instruction; calls pop what they push."""
    if instruction.flow_control in (x86.CALL, x86.CALL_INDIRECT):
        return depth
    mnemonic = instruction.mnemonic
    if mnemonic == Mnemonic.LEAVE:
        return Depth(None if depth.frame is None else depth.frame - 8, None)
    if mnemonic in (Mnemonic.PUSH, Mnemonic.POP, Mnemonic.PUSHFQ, Mnemonic.POPFQ):
        depth = depth._replace(stack=_plus(depth.stack, -instruction.stack_pointer_increment))
        return depth._replace(frame=None) if _pops_frame(instruction) else depth
    changed = writes(instruction)
    if changed & (RSP | _RBP) == 0:
        return depth
    return _moved(depth, instruction, changed)


def _moved(depth: Depth, instruction: Instruction, changed: int) -> Depth:
    """The depth after an instruction that changes rsp or rbp in another way than by a push or pop."""
    if changed & RSP:
        return depth._replace(stack=_new_stack(depth, instruction))
    from_stack = instruction.mnemonic == Mnemonic.MOV and instruction.op1_register == Register.RSP
    return depth._replace(frame=depth.stack if from_stack else _frame_by_lea(depth, instruction))


def _new_stack(depth: Depth, instruction: Instruction) -> int | None:
    mnemonic = instruction.mnemonic
    if mnemonic in (Mnemonic.ADD, Mnemonic.SUB) and int(instruction.op1_kind) in _IMMEDIATES:
        amount = x86.signed(instruction.immediate(1))
        return _plus(depth.stack, -amount if mnemonic == Mnemonic.ADD else amount)
    if mnemonic == Mnemonic.MOV and instruction.op1_register == Register.RBP:
        return depth.frame
    if mnemonic == Mnemonic.MOV:
        return ELSEWHERE
    if mnemonic == Mnemonic.LEA and int(instruction.memory_index) == x86.NO_REGISTER:
        return _lea(depth, instruction)
    return None


def _lea(depth: Depth, instruction: Instruction) -> int | None:
    displacement = x86.signed(instruction.memory_displacement)
    base = int(instruction.memory_base)
    if base == Register.RSP:
        return _plus(depth.stack, -displacement)
    if base == Register.RBP:
        return _plus(depth.frame, -displacement)
    # gcc keeps the caller's rsp in r10 (or another register) where it realigns the stack: `lea rsp, [r10-8]`.
    return 0 if displacement == -8 else None


def _frame_by_lea(depth: Depth, instruction: Instruction) -> int | None:
    if instruction.mnemonic == Mnemonic.LEA and instruction.memory_base == Register.RSP:
        return _plus(depth.stack, -x86.signed(instruction.memory_displacement))
    return None


def _pops_frame(instruction: Instruction) -> bool:
    return instruction.mnemonic == Mnemonic.POP and register_bit(instruction.op0_register) == _RBP


def _plus(value: int | None, amount: int) -> int | None:
    return None if value is None else value + amount
