# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds all instructions of an image that may read or write a variable.

Compilers seldom name a variable in the access itself. So every address of the object that contains the variable is
followed, from wherever code or data hold it, through registers to its uses. Where an address escapes (to memory, or to
code that is not followed), any code may use it: then the instructions that were found are not all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from iced_x86 import Instruction, Mnemonic

from gilk.analysis.analysis import Analysis
from gilk.analysis.followed import FIRST_RESULT, RESULTS, SOMEWHERE, AddressRules, Escapes, Held, joined
from gilk.analysis.memory_uses import MemoryUse, is_string, memory_use
from gilk.analysis.model import Block, End, Function
from gilk.analysis.references import AddressRange, data_pointers, references
from gilk.arch import decode as x86
from gilk.arch.effects import REGISTERS
from gilk.values import dataclass

#: Functions of the start-up code that name the end of the table of transactional memory; a variable may begin there.
_OF_THE_START_UP = ("deregister_tm_clones", "register_tm_clones")


@dataclass(frozen=True, slots=True)
class VariableAccess:
    """An instruction in ``function``, which may be a part of one, that may access the variable. ``start`` is the
    link-time address of its operand, None if that is known only when it runs.
    """

    function: Function
    instruction: Instruction
    use: MemoryUse
    start: int | None


@dataclass(frozen=True, slots=True)
class Escape:
    """A place at which an address of the object can no longer be followed: ``address`` is that of an instruction or of
    data, ``function`` the name of the function there, '' for none; ``how`` says in words what happens to it.
    """

    address: int
    function: str
    how: str


@dataclass(frozen=True, slots=True)
class VariableAccesses:
    """The accesses of a variable, and the escapes of its addresses. If there are escapes, there may be other
    accesses.
    """

    accesses: tuple[VariableAccess, ...]
    escapes: tuple[Escape, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A ``part`` of an ``object``: all of it, or a member. ``slots``: the words of the image that hold an address of
    the object once the image is loaded, such as GOT entries, each with that address; ``pointers``: other words that do.
    An object that lies outside of the image has a range of its own all the same, apart from all addresses of the image.
    """

    object: AddressRange
    part: AddressRange
    slots: dict[int, int] = field(default_factory=dict)
    pointers: tuple[int, ...] = ()


def accesses(analysis: Analysis, variable: Variable) -> VariableAccesses:
    """The accesses of the variable, in address order, and the escapes of its addresses."""
    return _Search(analysis, variable).result()


class _Search:
    def __init__(self, analysis: Analysis, variable: Variable) -> None:
        self._analysis, self._image, self._variable = analysis, analysis.image, variable
        self._rules = AddressRules(
            variable.object, variable.slots, not self._image.position_independent, self._taken
        )  # fmt: skip
        self._found: dict[int, VariableAccess] = {}
        self._escapes: dict[int, Escape] = {}
        self._returning: dict[int, Held] = {}  # what functions may return, by their start
        self._todo: dict[int, Function] = {}

    def result(self) -> VariableAccesses:
        for slot in (*self._variable.pointers, *data_pointers(self._image, self._variable.object)):
            if slot not in self._variable.slots:
                self._escapes[slot] = Escape(slot, "", "in data")
        self._follow(AddressRange(slot, slot + 8) for slot in self._variable.slots)
        self._follow([self._variable.object])
        while self._todo:
            _Following(self._analysis, self._todo.pop(next(iter(self._todo))), self).run()
        return VariableAccesses(
            tuple(one for _, one in sorted(self._found.items())), tuple(one for _, one in sorted(self._escapes.items()))
        )

    def _follow(self, ranges: Iterable[AddressRange]) -> None:
        """Note that the functions whose code may name an address in ``ranges`` have to be followed, with all their
        parts.
        """
        for at in references(self._image, tuple(ranges)):
            span = self._image.span_at(at)
            if span is None:
                if not self._is_padding(at):
                    self._escapes[at] = Escape(at, "", "to code that belongs to no function")
                continue
            if span.name not in _OF_THE_START_UP:
                function = self._whole(self._analysis.function(span))
                self._todo[function.start] = function

    def _is_padding(self, at: int) -> bool:
        """Whether nothing but idle instructions lie between the functions before and behind ``at``."""
        before, behind = self._image.span_before(at), self._image.span_after(at)
        if before is None or behind is None:
            return False
        gap = self._image.read(before.end, behind.start - before.end)
        return all(x86.is_nop(one) or x86.is_trap(one) or _is_idle(one) for one in x86.decode(gap, before.end))

    def _whole(self, function: Function) -> Function:
        whole = self._image.span_at(function.whole) if function.whole else None
        return function if whole is None else self._analysis.function(whole)

    def returns(self, function: Function, held: Held, address: int) -> None:
        """Note that the function may return an address. If all its callers are known, they are followed; otherwise it
        escapes. Only the first result counts for unknown callers: the register of the second mostly holds something
        left over.
        """
        whole = self._whole(function)
        span = self._image.span_at(whole.start)
        if span is None or span.exported or self._is_taken(whole.start):
            if FIRST_RESULT in held:
                self.escape(function, address, "to the caller")
            return
        old = self._returning.get(whole.start, Held())
        new = old | dict.fromkeys(RESULTS & held.keys(), SOMEWHERE)
        if new != old:
            self._returning[whole.start] = new
            self._follow([AddressRange(whole.start, whole.start + 1)])

    def _is_taken(self, start: int) -> bool:
        """Whether other code than direct calls and jumps may lead to ``start``."""
        jumps = self._analysis.jumps
        return start == self._image.entry or start in jumps.taken or start in jumps.pointers

    def result_of(self, instruction: Instruction) -> Held:
        """The addresses that the function called by the instruction leaves in registers."""
        return self._returning.get(instruction.near_branch_target, {}) if x86.is_direct_call(instruction) else {}

    def _taken(self, target: int) -> int:
        """The registers that the function at ``target`` reads, a bit each; all of them if the function is not known."""
        span = self._image.span_at(target) if target else None
        if span is None or span.start != target or target in self._image.plt:
            return REGISTERS
        return self._analysis.liveness(self._analysis.function(span)).summary().gen & REGISTERS

    def look(self, function: Function, held: Held, instruction: Instruction) -> Held:
        """Note an access by the instruction; returns the addresses that registers hold behind it."""
        try:
            self._note(function, held, instruction)
            return self._rules.after(held, instruction) | self.result_of(instruction)
        except Escapes as error:
            self.escape(function, instruction.ip, str(error))
            return {}

    def leave(self, function: Function, held: Held, address: int, target: int) -> None:
        """Check a jump to another function at ``target``, 0 if that is not known."""
        try:
            self._rules.check_jump(held, target)
        except Escapes as error:
            self.escape(function, address, str(error))
        if target in self._returning:
            self.returns(function, self._returning[target], address)

    def escape(self, function: Function, address: int, how: str) -> None:
        self._escapes.setdefault(address, Escape(address, function.name, how))

    def _note(self, function: Function, held: Held, instruction: Instruction) -> None:
        use = memory_use(instruction)
        if use is None:
            return
        if is_string(instruction):
            if 6 in held or 7 in held:
                self._found[instruction.ip] = VariableAccess(function, instruction, use, None)
            return
        address = self._rules.address(held, instruction)
        if address is None:
            return
        start = None if address == SOMEWHERE else address
        if start is not None and not self._variable.part.meets(start, start + max(use.size, 1)):
            return
        known = self._found.get(instruction.ip)
        if known is not None and known.start != start:
            start = None
        self._found[instruction.ip] = VariableAccess(function, instruction, use, start)


class _Following:
    """Follows addresses through a function and its parts: computes what registers hold at the start of each block,
    until nothing changes.
    """

    def __init__(self, analysis: Analysis, function: Function, search: _Search) -> None:
        self._analysis, self._search = analysis, search
        self._functions = analysis.extents(function)
        self._blocks = {block.start: (one, block) for one in self._functions for block in one.blocks}
        self._pads = [block.start for one in self._functions for block in one.blocks if block.landing_pad]
        self._held: dict[int, Held] = {start: {} for start in self._blocks}
        self._entered = {one.start for one in self._functions}
        self._bodies: dict[int, list[Instruction]] = {}

    def run(self) -> None:
        todo = dict.fromkeys(self._blocks)
        while todo:
            start = next(iter(todo))
            del todo[start]
            function, block = self._blocks[start]
            held, thrown = self._through(function, block)
            for successor in self._successors(block):
                self._flow(successor, held, todo)
            for pad in self._pads if thrown else ():
                self._flow(pad, thrown, todo)

    def _flow(self, start: int, held: Held, todo: dict[int, None]) -> None:
        old = self._held[start]
        new = joined(old, held) if start in self._entered else held
        self._entered.add(start)
        if new != old:
            self._held[start] = new
            todo[start] = None

    def _through(self, function: Function, block: Block) -> tuple[Held, Held]:
        """The addresses that registers hold behind the block, and those that landing pads may find in them."""
        held, thrown = self._held[block.start], Held()
        for instruction in self._body(function, block):
            before = held
            held = self._search.look(function, held, instruction)
            if instruction.ip == block.terminator:
                self._leave(function, block, before, instruction)
            if self._pads and instruction.ip != block.terminator and held and instruction.flow_control:
                thrown = joined(thrown, held) if thrown else held
        return held, thrown

    def _leave(self, function: Function, block: Block, held: Held, instruction: Instruction) -> None:
        if block.how is End.RETURN:
            if RESULTS & held.keys():
                self._search.returns(function, held, instruction.ip)
        elif block.how in (End.TAIL, End.TAIL_INDIRECT):
            self._search.leave(function, held, instruction.ip, block.target)
        elif block.how is End.INDIRECT and held:
            self._search.escape(function, instruction.ip, "by a jump whose targets are not known")
        elif block.target and block.target not in self._blocks and held and block.how in (End.JUMP, End.BRANCH):
            self._search.leave(function, held, instruction.ip, block.target)

    def _successors(self, block: Block) -> Iterable[int]:
        more = (block.target,) if block.target in self._blocks else ()
        return [each for each in (*block.successors, *more) if each in self._blocks]

    def _body(self, function: Function, block: Block) -> list[Instruction]:
        known = self._bodies.get(block.start)
        if known is None:
            steps = self._analysis.steps(function, block)
            known = self._bodies[block.start] = [step.instruction for step in steps]
        return known


def _is_idle(instruction: Instruction) -> bool:
    """Whether the instruction is ``xchg %ax,%ax``, with which assemblers fill gaps."""
    return instruction.mnemonic == Mnemonic.XCHG and instruction.op0_register == instruction.op1_register
