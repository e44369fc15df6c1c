# SPDX-License-Identifier: LGPL-2.1-or-later
"""The check with which functions of Go begin: whether the goroutine's stack has room for them.

The function compares the stack pointer, or an address some way below it, with a bound that lies in the goroutine. If
there is too little room, it branches to code that calls runtime.morestack and then jumps back to the function's start,
on a larger stack (stacksplit of cmd/internal/obj/x86). Such a call executes the start twice, and the code behind the
check once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from iced_x86 import Code, Decoder, Instruction, Mnemonic, OpKind, Register

from gilk.values import dataclass

_FRAMES = 2  # a large frame is first compared with what an address can be, in a block of its own
_COMPARED: Final = frozenset((Register.RSP, Register.R12))
_NO_BOUND: Final = frozenset((Register.RSP, Register.RIP, Register.NONE))


class _Block(Protocol):
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def terminator(self) -> int: ...
    @property
    def successors(self) -> tuple[int, ...]: ...


class _Function(Protocol):
    """A function of the model, which has its check for stack itself."""

    @property
    def start(self) -> int: ...
    @property
    def code(self) -> bytes: ...
    @property
    def blocks(self) -> Sequence[_Block]: ...
    @property
    def calls(self) -> tuple[tuple[int, int], ...]: ...
    def block_at(self, address: int) -> _Block | None: ...


@dataclass(frozen=True, slots=True)
class StackCheck:
    """``compare`` is the address of the comparison. A call goes on behind the branch that follows; if that branch is
    taken, the block at ``again`` has the function begin again.
    """

    compare: int
    again: int


def stack_check(function: _Function) -> StackCheck | None:
    """The check at the start of a function; None if it has none."""
    if not function.blocks or function.blocks[0].start != function.start:
        return None
    block: _Block | None = function.blocks[0]
    for _ in range(_FRAMES):
        again = _again(function, block) if block else None
        if block is None or again is None:
            return None
        found = _instructions(function, block)
        if len(found) > 1 and _is_check(found[-2], found[-1]):
            return StackCheck(found[-2].ip, again.start)
        block = function.block_at(block.end) if found[-1].mnemonic == Mnemonic.JB else None
    return None


def _again(function: _Function, block: _Block) -> _Block | None:
    """The block to which ``block`` may branch, if that one makes a call and jumps to the function's start."""
    ways = [start for start in block.successors if start != block.end]
    found = function.block_at(ways[0]) if len(ways) == 1 and block.terminator < block.end else None
    if found is None or found.start != ways[0] or found.successors != (function.start,):
        return None
    return found if any(found.start <= site < found.end for site, _ in function.calls) else None


def _is_check(compare: Instruction, branch: Instruction) -> bool:
    return (
        compare.code == Code.CMP_R64_RM64
        and compare.op0_register in _COMPARED
        and compare.op1_kind == OpKind.MEMORY
        and compare.memory_base not in _NO_BOUND
        and branch.mnemonic == Mnemonic.JBE
    )


def _instructions(function: _Function, block: _Block) -> Sequence[Instruction]:
    offset = block.start - function.start
    return list(Decoder(64, function.code[offset : offset + block.end - block.start], ip=block.start))
