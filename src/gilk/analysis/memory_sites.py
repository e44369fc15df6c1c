# SPDX-License-Identifier: LGPL-2.1-or-later
"""All instructions of functions that access memory through any register: each of them may access any memory.

Accesses through the stack pointer, such as pushes and calls, and to segments of threads (``fs:``, ``gs:``) are left
out.
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
    """A jump in ``function`` with unknown targets: the code there may access memory, too."""

    function: Function
    address: int


def memory_sites(analysis: Analysis, ranges: Iterable[tuple[int, int]]) -> Iterator[VariableAccess | UnknownCode]:
    """The accesses and jumps in any of the ranges [start, end), function by function in address order."""
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
    """Whether the memory operand is neither on the stack nor in a segment of the thread."""
    return instruction.memory_base not in _STACK and instruction.memory_segment not in _OWN
