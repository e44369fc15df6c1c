# SPDX-License-Identifier: LGPL-2.1-or-later
"""Computes which registers and flags are live: still read before they are overwritten.

Code compiled with -fipa-ra, and assembly, keeps values in "caller-saved" registers across calls whose callee is known
not to touch them. So the calling convention proves nothing here: a register is dead only where the code itself
overwrites it on every path, in this function or in callees of the same image.

A function is summarised as ``before = gen | (after & keeps)``, which is exact for this problem. Members of a call cycle
know nothing of one another, whichever function was asked for first, so the answer does not depend on the order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from iced_x86 import Instruction

from gilk.analysis.model import EVERYTHING, Block, End, Function, LiveInstruction
from gilk.arch import decode as x86
from gilk.arch.effects import FINE_EVERYTHING, FINE_FLAGS, PRESERVED, R11, RSP, fine_effects, fold

# The resolver of lazily bound functions overwrites these registers, and no argument is in them.
_LINKAGE: Final = R11 | FINE_FLAGS


# A caller that knows a function only by the calling convention may read these registers once it has returned.
_RESULTS: Final = 1 << 0 | 1 << 2 | PRESERVED  # rax, rdx
# Such a function may read its arguments, and rax, which holds the number of vector registers.
_ARGUMENTS: Final = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 9 | RSP


class Summary(NamedTuple):
    """The effect of code on liveness: the registers live before it are gen | (those live after it & keeps)."""

    gen: int
    keeps: int

    def before(self, after: int) -> int:
        return self.gen | (after & self.keeps)


UNKNOWN: Final = Summary(FINE_EVERYTHING, 0)
IMPORTED: Final = Summary(FINE_EVERYTHING & ~_LINKAGE, 0)
CONVENTIONAL: Final = Summary(_ARGUMENTS, PRESERVED)

Callee = Callable[[Instruction], Summary]


def live_at_return(exported: bool, conventional: bool) -> int:
    """The registers that callers may still read after a return; if they know the function only by the calling
    convention, just its results.
    """
    if conventional:
        return _RESULTS
    return FINE_EVERYTHING & ~FINE_FLAGS if exported else FINE_EVERYTHING


def instructions(function: Function, block: Block, start: int) -> list[Instruction]:
    """The instructions of the block from ``start`` on."""
    origin = function.start
    return x86.decode(function.code[start - origin : block.end - origin], start)


def all_live(function: Function, block: Block) -> tuple[LiveInstruction, ...]:
    """The block's instructions as if all registers and flags were live before each of them."""
    return tuple(LiveInstruction(each, EVERYTHING) for each in instructions(function, block, block.start))


class Liveness:
    """The liveness of one function, given the summaries of its callees.

    ``at_return`` are the registers that its callers may still read. ``call`` summarises the callee of a call
    instruction, ``outside`` the code outside of the function that a block leads to.
    """

    def __init__(self, function: Function, at_return: int, call: Callee, outside: Callable[[Block], Summary]) -> None:
        self._function = function
        self._call = call
        pads = any(block.landing_pad for block in function.blocks)
        self._always = PRESERVED if pads else 0  # unwinding carries these from any call into the pad
        self._at_return = at_return
        self._outside = {block.start: outside(block) for block in function.blocks if block.target}
        self._through = {block.start: self._compose(block) for block in function.blocks}
        self._before = self._solve(self._at_return)

    def summary(self) -> Summary:
        """The summary of the whole function, from its entry."""
        start = self._function.start
        if start not in self._before:
            return UNKNOWN
        return Summary(self._solve(0)[start], self._before[start])

    def after(self, block: Block) -> int:
        """The fine mask of what is live at the block's very end, behind its last instruction."""
        return self._exit(block, self._before, self._at_return)

    def before_end(self, block: Block) -> int:
        """The mask of what is live where control is about to leave: before the transfer, or behind the last
        instruction.
        """
        live = self.after(block)
        if block.terminator < block.end:
            live = self._effect(self._decode(block, block.terminator)[0]).before(live) | self._always
        return fold(live)

    def steps(self, block: Block) -> tuple[LiveInstruction, ...]:
        """The block's instructions, each with what is live before it."""
        live = self.after(block)
        steps = []
        for instruction in reversed(self._decode(block, block.start)):
            live = self._effect(instruction).before(live) | self._always
            steps.append(LiveInstruction(instruction, fold(live)))
        return tuple(reversed(steps))

    def _decode(self, block: Block, start: int) -> list[Instruction]:
        return instructions(self._function, block, start)

    def _effect(self, instruction: Instruction) -> Summary:
        reads, kills = fine_effects(instruction)
        flow = instruction.flow_control
        if flow == x86.CALL_INDIRECT or (flow == x86.CALL and not x86.is_system_call(instruction)):
            callee = self._call(instruction)
            return Summary(reads | callee.gen | RSP, callee.keeps)
        return Summary(reads, ~kills)

    def _compose(self, block: Block) -> Summary:
        """The summary of all instructions of a block."""
        gen, keeps = 0, FINE_EVERYTHING
        for instruction in reversed(self._decode(block, block.start)):
            if instruction.flow_control:
                one = self._effect(instruction)
                gen, keeps = one.gen | (gen & one.keeps), keeps & one.keeps
            else:
                reads, kills = fine_effects(instruction)
                gen, keeps = reads | (gen & ~kills), keeps & ~kills
        return Summary(gen | self._always, keeps)

    def _solve(self, at_return: int) -> dict[int, int]:
        """The registers and flags that are live at the start of each block: the least solution, by sweeps
        from the end.
        """
        blocks = self._function.blocks
        before = {block.start: 0 for block in blocks}
        changed = True
        while changed:
            changed = False
            for block in reversed(blocks):
                live = self._through[block.start].before(self._exit(block, before, at_return))
                if live != before[block.start]:
                    before[block.start] = live
                    changed = True
        return before

    def _exit(self, block: Block, before: dict[int, int], at_return: int) -> int:
        if block.how is End.RETURN:
            return at_return
        if block.how in _ANYTHING_AFTER:
            return FINE_EVERYTHING
        live = 0
        for successor in block.successors:
            live |= before[successor]
        if block.target:
            live |= self._outside[block.start].before(at_return)
        return live


_ANYTHING_AFTER: Final = frozenset({End.INDIRECT, End.TAIL_INDIRECT, End.NORETURN, End.STOP})
