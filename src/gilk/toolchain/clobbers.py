# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds the caller-saved registers that compiled code may change: only those have to be saved around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from iced_x86 import FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register, RegisterExt

from gilk.arch.decode import decode
from gilk.arch.effects import CALLER_SAVED
from gilk.lang.runtime import FUNCTIONS

_CALLS = (FlowControl.CALL, FlowControl.INDIRECT_CALL)
_BRANCHES = (FlowControl.UNCONDITIONAL_BRANCH, FlowControl.CONDITIONAL_BRANCH, FlowControl.INDIRECT_BRANCH)
_WRITES = frozenset((OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE))
_GENERAL = (
    *(Register.RAX, Register.RCX, Register.RDX, Register.RBX, Register.RSP, Register.RBP, Register.RSI, Register.RDI),
    *(Register.R8, Register.R9, Register.R10, Register.R11, Register.R12, Register.R13, Register.R14, Register.R15),
)
_BITS = {"rax": 1 << 0, "rdx": 1 << 2}
#: These functions keep all registers except those of their result.
_KEEPING = {name: sum(_BITS[each] for each in made.result) for name, made in FUNCTIONS.items() if made.cold}


def of_function(code: bytes, address: int, name: str, symbols: Mapping[str, tuple[int, int]]) -> int:
    """A mask of the registers that a function may change.

    ``code`` lies at ``address``; ``symbols`` are addresses and sizes of its functions. A function may also change the
    registers of those that it calls or jumps to, unless they are declared to keep them; a function whose code is not
    here may change all that a call may.
    """
    names = {at: called for called, (at, size) in symbols.items() if size}
    found, seen, left = 0, {name}, [name]
    while left:
        function = left.pop()
        parts = [symbols[part] for part in (function, f"{function}.cold") if part in symbols]
        instructions = [one for at, size in parts for one in decode(code[at - address :][:size], at)]
        for target in _leads(instructions, parts):
            called = names.get(target)
            if called is None:
                return CALLER_SAVED
            result = _KEEPING.get(called.split(".")[0])
            found |= result or 0
            if result is None and called not in seen:
                seen.add(called)
                left.append(called)
        found |= _written(instructions)
    return found


def _leads(instructions: list[Instruction], parts: list[tuple[int, int]]) -> Iterator[int]:
    """The addresses outside of ``parts`` to which the code jumps, and those that it calls; 0 where a register holds the
    address."""
    for one in instructions:
        flow = one.flow_control
        inside = any(at <= one.near_branch_target < at + size for at, size in parts)
        if flow in _CALLS or (flow in _BRANCHES and not inside):
            yield one.near_branch_target


def _written(instructions: list[Instruction]) -> int:
    factory = InstructionInfoFactory()
    found = set()
    for instruction in instructions:
        for used in factory.info(instruction).used_registers():
            if used.access in _WRITES:
                found.add(RegisterExt.full_register(used.register))
    return sum(1 << i for i, register in enumerate(_GENERAL) if register in found) & CALLER_SAVED
