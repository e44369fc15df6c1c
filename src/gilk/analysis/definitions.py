# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds the instructions that may have set a register, or a variable on the stack, on the ways to a point."""

from __future__ import annotations

from typing import Final, NamedTuple

from iced_x86 import Instruction, Mnemonic, OpKind, Register

from gilk.analysis.model import Block
from gilk.analysis.traverse import Traversal
from gilk.arch import decode as x86
from gilk.arch.effects import PRESERVED, REGISTERS, register_bit, writes

_FIRST_SLOT: Final = 16  # numbers of places: 0-15 are the registers, then come slots of the stack in order of discovery
_READS_MEMORY: Final = frozenset({Mnemonic.CMP, Mnemonic.TEST, Mnemonic.PUSH, Mnemonic.JMP, Mnemonic.CALL, Mnemonic.BT})


class Definition(NamedTuple):
    """The instruction at ``position`` of the block that starts at ``block`` sets ``place``; -1: the value comes from
    outside of the function.
    """

    block: int
    position: int
    place: int


Definitions = frozenset[Definition]


class DefinedPlaces:
    """The registers and slots that each instruction of a function sets, remembered while its blocks grow.

    A slot is identified by its base register and displacement alone: a push between two uses by way of rsp is not
    noticed. Callers check what they conclude from that.
    """

    def __init__(self) -> None:
        self._slots: dict[tuple[int, int], int] = {}
        self._set: dict[int, int] = {}

    def slot(self, instruction: Instruction) -> int | None:
        """The place of the memory operand if that is a variable on the stack, otherwise None."""
        if int(instruction.memory_base) not in (Register.RSP, Register.RBP):
            return None
        if int(instruction.memory_index) != x86.NO_REGISTER:
            return None
        key = (int(instruction.memory_base), instruction.memory_displacement)
        return self._slots.setdefault(key, _FIRST_SLOT + len(self._slots))

    def set_by(self, instruction: Instruction) -> int:
        """The places that the instruction may change, a bit each."""
        known = self._set.get(instruction.ip)
        if known is None:
            known = clobbered(instruction)
            if int(instruction.op0_kind) == OpKind.MEMORY and instruction.mnemonic not in _READS_MEMORY:
                slot = self.slot(instruction)
                known |= 0 if slot is None else 1 << slot
            self._set[instruction.ip] = known
        return known

    def copied(self, instruction: Instruction) -> int | None:
        """The place whose value the instruction copies if it is a move of 64 bits, otherwise None."""
        if instruction.mnemonic != Mnemonic.MOV:
            return None
        if int(instruction.op1_kind) == OpKind.REGISTER and instruction.op1_register >= Register.RAX:
            return register_bit(instruction.op1_register).bit_length() - 1
        if int(instruction.op1_kind) == OpKind.MEMORY and instruction.op0_register >= Register.RAX:
            return self.slot(instruction)
        return None


def clobbered(instruction: Instruction) -> int:
    """The registers that the instruction may change; a call may change those that the convention lets the callee
    change.
    """
    if instruction.flow_control in (x86.CALL, x86.CALL_INDIRECT) and not x86.is_system_call(instruction):
        return REGISTERS & ~PRESERVED
    return writes(instruction)


class Reaching:
    """The reaching definitions in a function, over those of its blocks that are known so far."""

    def __init__(self, traversal: Traversal, blocks: tuple[Block, ...], places: DefinedPlaces) -> None:
        self.blocks: Final = {block.start: block for block in blocks}
        self.predecessors: Final[dict[int, list[Block]]] = {}
        for block in blocks:
            for successor in block.successors:
                self.predecessors.setdefault(successor, []).append(block)
        self.places: Final = places
        self._traversal = traversal
        self._bodies: dict[int, list[Instruction]] = {}
        self._masks: dict[int, list[int]] = {}
        self._at_start: dict[tuple[int, int], Definitions] = {}

    def body(self, block: Block) -> list[Instruction]:
        """The instructions of ``block``."""
        known = self._bodies.get(block.start)
        if known is None:
            stream = self._traversal.stream_at(block.start)
            assert stream is not None
            first = stream.index[block.start]
            known = stream.instructions[first : stream.index.get(block.end, len(stream.instructions))]
            self._bodies[block.start] = known
        return known

    def before(self, block: Block, position: int, place: int) -> Definitions:
        """The definitions of ``place`` that reach the instruction at ``position``, followed back through copies, spills
        and reloads."""
        found = set()
        todo = list(self._nearest(block, position, place))
        seen = set(todo)
        while todo:
            definition = todo.pop()
            source = self._copied(definition)
            if source is None:
                found.add(definition)
                continue
            nearest = self._nearest(self.blocks[definition.block], definition.position, source)
            todo += nearest - seen
            seen |= nearest
        return frozenset(found)

    def _copied(self, definition: Definition) -> int | None:
        if definition.position < 0:
            return None
        return self.places.copied(self.body(self.blocks[definition.block])[definition.position])

    def _nearest(self, block: Block, position: int, place: int) -> Definitions:
        found = self._last(block, position, place)
        return frozenset([found]) if found is not None else self._entering(block, place)

    def _last(self, block: Block, position: int, place: int) -> Definition | None:
        masks = self._block_masks(block)
        for i in range(position - 1, -1, -1):
            if masks[i] >> place & 1:
                return Definition(block.start, i, place)
        return None

    def _entering(self, block: Block, place: int) -> Definitions:
        """The definitions of ``place`` that reach the start of ``block``: a search backwards through all blocks that do
        not set it.
        """
        key = (block.start, place)
        known = self._at_start.get(key)
        if known is None:
            found: set[Definition] = set()
            seen = {block.start}
            todo = [block]
            while todo:
                self._step_back(todo.pop(), place, found, seen, todo)
            known = self._at_start[key] = frozenset(found)
        return known

    def _step_back(self, at: Block, place: int, found: set[Definition], seen: set[int], todo: list[Block]) -> None:
        before = self.predecessors.get(at.start, ())
        if at.start == self._traversal.start or (not before and not _survives_unwinding(place)):
            found.add(Definition(at.start, -1, place))
        for block in before:
            last = self._last(block, len(self._block_masks(block)), place)
            if last is not None:
                found.add(last)
            elif block.start not in seen:
                seen.add(block.start)
                todo.append(block)

    def _block_masks(self, block: Block) -> list[int]:
        known = self._masks.get(block.start)
        if known is None:
            known = self._masks[block.start] = [self.places.set_by(i) for i in self.body(block)]
        return known


def _survives_unwinding(place: int) -> bool:
    """Whether a landing pad, which no block leads to, finds in ``place`` what the function itself put there."""
    return place >= _FIRST_SLOT or bool(PRESERVED >> place & 1)
