# SPDX-License-Identifier: LGPL-2.1-or-later
"""Properties of iced-x86's opcodes, as tables to index whole arrays with."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import Any, Final

import numpy as np
from iced_x86 import Code, FlowControl, Instruction, Mnemonic, OpCodeInfo, OpCodeOperandKind
from numpy.typing import NDArray


class OpcodeFlow(IntEnum):
    """How control goes on after an instruction."""

    NEXT = 0
    BRANCH = 1
    JUMP = 2
    CALL = 3
    CALL_INDIRECT = 4
    JUMP_INDIRECT = 5
    RETURN = 6
    STOP = 7  # ud2, int3, hlt, or no instruction
    SYSTEM = 8  # syscall, int n, and those that end or begin a transaction: they go on, but cannot be moved freely


_FLOWS: Final = {
    FlowControl.CONDITIONAL_BRANCH: OpcodeFlow.BRANCH,
    FlowControl.UNCONDITIONAL_BRANCH: OpcodeFlow.JUMP,
    FlowControl.CALL: OpcodeFlow.CALL,
    FlowControl.INDIRECT_CALL: OpcodeFlow.CALL_INDIRECT,
    FlowControl.INDIRECT_BRANCH: OpcodeFlow.JUMP_INDIRECT,
    FlowControl.RETURN: OpcodeFlow.RETURN,
    FlowControl.EXCEPTION: OpcodeFlow.STOP,
    FlowControl.INTERRUPT: OpcodeFlow.SYSTEM,
    FlowControl.XBEGIN_XABORT_XEND: OpcodeFlow.SYSTEM,
}
_STOPS: Final = frozenset({Code.INT3, Code.INT1, Code.HLT, Code.INVALID})
_NEAR: Final = {OpCodeOperandKind.BR64_1: 1, OpCodeOperandKind.BR64_4: 4}
_PADDING: Final = frozenset({Mnemonic.NOP, Mnemonic.INT3})


def _codes() -> list[Any]:
    """All of iced-x86's opcodes, which are plain integers, sorted."""
    return sorted(value for name in dir(Code) if isinstance(value := getattr(Code, name), int) and name.isupper())


@cache
def flows() -> NDArray[np.uint8]:
    """The OpcodeFlow of each opcode."""
    codes = _codes()
    table = np.zeros(codes[-1] + 1, np.uint8)
    probe = Instruction()
    for code in codes:
        probe.code = code
        flow = _FLOWS.get(probe.flow_control, OpcodeFlow.NEXT)
        if flow is OpcodeFlow.CALL and not near()[code]:
            flow = OpcodeFlow.SYSTEM
        table[code] = OpcodeFlow.STOP if code in _STOPS else flow
    return table


@cache
def near() -> NDArray[np.uint8]:
    """The size in bytes of the displacement at the end of a direct near branch, by opcode; 0 for all other opcodes."""
    codes = _codes()
    table = np.zeros(codes[-1] + 1, np.uint8)
    for code in codes:
        information = OpCodeInfo(code)
        if information.op_count == 1:
            table[code] = _NEAR.get(information.op_kind(0), 0)
    return table


@cache
def padding() -> NDArray[np.bool_]:
    """Whether an instruction may be there for alignment only, by opcode."""
    return _flags(lambda probe: probe.mnemonic in _PADDING)


@cache
def raising() -> NDArray[np.bool_]:
    """Whether an instruction raises an exception on purpose (ud2, int3, int n), by opcode."""
    return _flags(lambda probe: probe.flow_control in (FlowControl.EXCEPTION, FlowControl.INTERRUPT))


def _flags(has: Callable[[Instruction], bool]) -> NDArray[np.bool_]:
    """Whether ``has`` holds for an instruction, by opcode."""
    codes = _codes()
    table = np.zeros(codes[-1] + 1, np.bool_)
    probe = Instruction()
    for code in codes:
        probe.code = code
        table[code] = has(probe)
    return table
