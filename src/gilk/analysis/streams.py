# SPDX-License-Identifier: LGPL-2.1-or-later
"""Linear decodings of a function's bytes, and the stretches of them that control flow reaches.

Compilers emit code without gaps, so one decoding from a function's start has nearly every instruction in its right
place: the traversal then needs to look only at the instructions that transfer control. A branch to an address between
two instructions opens another stream, which ends where its instructions coincide with those of the first.
"""

from __future__ import annotations

import bisect
from collections.abc import Container
from dataclasses import field

from iced_x86 import Instruction

from gilk.arch import decode as x86
from gilk.values import dataclass


@dataclass
class InstructionStream:
    """The instructions from ``start`` on, one after the other; the address of each is a *head*.

    ``low`` maps the position (in ``controls``) of each reached control transfer to the lowest reached address that runs
    straight into it.
    """

    start: int
    end: int  # just past the last instruction: the end of the span, or a head of the main stream
    instructions: list[Instruction]
    index: dict[int, int]  # address -> position in instructions
    controls: list[int]  # addresses of control transfers, and ``end``
    low: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, instructions: list[Instruction], start: int, end: int, besides: Container[int] = ()
    ) -> InstructionStream:
        """A stream of ``instructions``. ``besides``: addresses of instructions that may transfer control although their
        bytes do not say so.
        """
        controls = [i.ip for i in instructions if i.flow_control or x86.stops(i) or i.ip in besides]
        addresses = [i.ip for i in instructions]
        return cls(start, end, instructions, dict(zip(addresses, range(len(addresses)), strict=True)), [*controls, end])

    def at(self, address: int) -> Instruction:
        return self.instructions[self.index[address]]

    def reach(self, address: int) -> int | None:
        """Note that ``address``, a head, is reached; returns the control transfer that follows if that was not reached
        before, or None.
        """
        row = bisect.bisect_left(self.controls, address)
        known = self.low.get(row)
        if known is None or address < known:
            self.low[row] = address
        return self.controls[row] if known is None else None

    def reached(self, address: int) -> bool:
        """Whether the instruction at ``address``, a head, is reached."""
        known = self.low.get(bisect.bisect_left(self.controls, address))
        return known is not None and known <= address

    def head_before(self, address: int) -> int:
        """The last head at or before ``address``."""
        row = bisect.bisect_right(self.instructions, address, key=_address) - 1
        return self.instructions[row].ip

    def stretches(self) -> list[tuple[int, int]]:
        """All reached stretches as (lowest address, address of the control transfer or ``end``), sorted."""
        return sorted((low, self.controls[row]) for row, low in self.low.items())


def _address(instruction: Instruction) -> int:
    return instruction.ip


def main_stream(code: bytes, start: int, besides: Container[int] = ()) -> InstructionStream:
    return InstructionStream.of(x86.decode(code, start), start, start + len(code), besides)


def side_stream(main: InstructionStream, code: bytes, address: int, besides: Container[int] = ()) -> InstructionStream:
    """The stream from ``address``, which is no head of ``main``, up to where both decode the same instructions."""
    instructions = []
    end = address
    while end < main.end and end not in main.index:
        instruction = x86.decode_one(code[end - main.start : end - main.start + 15], end)
        instructions.append(instruction)
        end = instruction.next_ip
    return InstructionStream.of(instructions, address, min(end, main.end), besides)
