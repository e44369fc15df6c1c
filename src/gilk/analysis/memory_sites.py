# SPDX-License-Identifier: LGPL-2.1-or-later
"""All instructions of functions that access memory wherever a register leads: any of them may reach any memory.

Left out is what the stack pointer leads to, as pushes and calls do, and segments of threads (``fs:``, ``gs:``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from iced_x86 import Instruction, Register

from gilk.analysis.accesses import VariableAccess
from gilk.analysis.analysis import Analysis
from gilk.analysis.memory_uses import memory_use
from gilk.analysis.model import Function
from gilk.arch import decode as x86
from gilk.values import dataclass

_STACK: Final[frozenset[int]] = frozenset({Register.RSP, Register.ESP})
_OWN: Final[frozenset[int]] = frozenset({Register.FS, Register.GS})


@dataclass(frozen=True, slots=True)
class UnknownCode:
    """A jump in ``function`` of which nobody knows where it leads: there may be accesses."""

    function: Function
    address: int


def memory_sites(
    analysis: Analysis, ranges: Iterable[tuple[int, int]]
) -> Iterator[VariableAccess | UnknownCode]:
    """In order of address, those in any of the ranges [start, end)."""
    wanted = sorted(set(ranges))
    for span in analysis.image.spans:
        if any(start < span.end and span.start < end for start, end in wanted):
            function = analysis.function(span)
            for one in _of_function(function):
                address = one.address if isinstance(one, UnknownCode) else one.instruction.ip
                if any(start <= address < end for start, end in wanted):
                    yield one


def _of_function(function: Function) -> Iterator[VariableAccess | UnknownCode]:
    for block in function.blocks:
        code = function.code[block.start - function.start : block.end - function.start]
        for instruction in x86.decode(code, block.start):
            use = memory_use(instruction) if _is_anywhere(instruction) else None
            if use is not None and (use.reads or use.writes):
                yield VariableAccess(function, instruction, use, None)
    yield from (UnknownCode(function, address) for address in function.indirect)


def _is_anywhere(instruction: Instruction) -> bool:
    """Whether it has an operand in memory that is not on the stack, nor of the thread alone."""
    return instruction.memory_base not in _STACK and instruction.memory_segment not in _OWN
