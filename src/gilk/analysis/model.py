# SPDX-License-Identifier: LGPL-2.1-or-later
"""The results of analysis: functions, blocks, control flow, liveness, as immutable values.

A *block* is a maximal run of instructions entered only at its first and left
only after its last. A call does not end a block, unless it cannot return.
Blocks hold only code reached from the function's entries: by branches, jump
tables and landing pads.
"""

from __future__ import annotations

import bisect
from enum import IntEnum
from functools import cached_property

from iced_x86 import Decoder, Instruction, Mnemonic

from gilk.analysis.stack_check import StackCheck, stack_check
from gilk.values import dataclass

_STD = 0xFD  # the opcode of std


class End(IntEnum):
    """How a block ends."""

    FALL = 0  # it falls through into the next block
    JUMP = 1  # direct unconditional jump, inside the function
    BRANCH = 2  # conditional, falls through otherwise
    TAIL = 3  # direct or PLT jump out of the function
    TABLE = 4  # indirect jump, all targets known
    INDIRECT = 5  # indirect jump, targets unknown and possibly in this function
    TAIL_INDIRECT = 6  # indirect jump proven to leave the function
    RETURN = 7
    NORETURN = 8  # a call that does not return
    STOP = 9  # ud2, hlt, int3, or bytes that do not decode


@dataclass(frozen=True, slots=True)
class Block:
    """The block [start, end) and the way in which control leaves it. ``index`` is the N of ``@N`` in a point's name."""

    index: int
    start: int
    end: int
    terminator: int  # address of the last instruction when it transfers control, else ``end``
    how: End
    successors: tuple[int, ...]  # starts of blocks of this function
    target: int = 0  # an address it leads to outside of the function or amid an instruction; one of several; 0: none
    landing_pad: bool = False


@dataclass(frozen=True)
class Function:
    """A function with its blocks, sorted by start; its instructions are decoded on demand."""

    name: str
    start: int
    end: int
    aliases: tuple[str, ...]
    blocks: tuple[Block, ...]
    calls: tuple[tuple[int, int], ...]  # (address of the call, target); target 0 if it is indirect
    indirect: tuple[int, ...]  # addresses of jumps whose targets are unknown
    noreturn: bool
    inner: frozenset[int]  # direct branch targets strictly inside, from anywhere in the image, that start no block
    code: bytes  # image bytes of [start, end)
    parts: tuple[tuple[int, int], ...] = ()  # other extents that belong to it (its .cold part)
    whole: int = 0  # start of the function that this is a part of; 0 if it is no part of another

    @cached_property
    def _starts(self) -> list[int]:
        return [block.start for block in self.blocks]

    def owns(self, address: int) -> bool:
        """Whether code at ``address`` belongs to this function, in any of its parts."""
        return self.start <= address < self.end or any(low <= address < high for low, high in self.parts)

    @cached_property
    def turns(self) -> bool:
        """Whether the function sets the direction flag. Then the flag may be set anywhere in it, which C does not
        expect.
        """
        pieces = ((b.start, self.code[b.start - self.start : b.end - self.start]) for b in self.blocks)
        return any(
            instruction.mnemonic == Mnemonic.STD
            for start, piece in pieces if _STD in piece for instruction in Decoder(64, piece, ip=start)
        )  # fmt: skip

    @cached_property
    def loops(self) -> bool:
        """Whether the function jumps to its own start: instruments there run once a round. The jump of its check for
        stack does not count.
        """
        again = self.check.again if self.check else None
        return any(self.start in (*b.successors, b.target) for b in self.blocks if b.start != again)

    @cached_property
    def check(self) -> StackCheck | None:
        """The function's check for stack, which functions of Go begin with; None if it has none."""
        return stack_check(self)

    def block_at(self, address: int) -> Block | None:
        i = bisect.bisect_right(self._starts, address) - 1
        if i >= 0 and address < self.blocks[i].end:
            return self.blocks[i]
        return None


@dataclass(frozen=True, slots=True)
class LiveInstruction:
    """One instruction of a block with what is live just before it.

    ``live`` has a bit for each general register, numbered as the hardware does (rax=0, rcx=1, rdx=2, rbx=3, rsp=4,
    ...), and FLAGS_LIVE.
    """

    instruction: Instruction
    live: int


FLAGS_LIVE = 1 << 16
EVERYTHING = (1 << 17) - 1
