# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds the places where an image makes system calls, and the numbers of the calls as far as its code tells."""

from __future__ import annotations

from collections.abc import Iterator

from iced_x86 import Code, Decoder, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register, RegisterExt

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import Function
from gilk.image.model import Image
from gilk.values import dataclass

_SYSCALL = b"\x0f\x05"
_MOVES = frozenset((Code.MOV_R32_IMM32, Code.MOV_RM32_IMM32, Code.MOV_RM64_IMM32, Code.MOV_R64_IMM64))
_CLEARS = frozenset((Code.XOR_R32_RM32, Code.XOR_RM32_R32))
_READS = frozenset((OpAccess.READ, OpAccess.COND_READ, OpAccess.NO_MEM_ACCESS, OpAccess.NONE))
_CALLS = frozenset((FlowControl.CALL, FlowControl.INDIRECT_CALL))


@dataclass(frozen=True, slots=True)
class SystemCall:
    """The system call instruction at ``address``; ``number`` is the content of eax there, None if it is not always the
    same.
    """

    function: Function
    address: int
    number: int | None


def system_calls(analysis: Analysis) -> Iterator[SystemCall]:
    """All system calls of the image in code that is reached."""
    image = analysis.image
    for address in _candidates(image):
        span = image.span_at(address)
        function = analysis.function(span) if span is not None else None
        block = function.block_at(address) if function is not None else None
        if function is None or block is None:
            continue
        decoder = Decoder(64, function.code[block.start - function.start : block.end - function.start], ip=block.start)
        number: int | None = None
        for instruction in decoder:
            if instruction.ip == address:
                if instruction.code == Code.SYSCALL:
                    yield SystemCall(function, address, number)
                break
            number = _after(instruction, number)


def _candidates(image: Image) -> Iterator[int]:
    for segment in image.segments:
        at = segment.data.find(_SYSCALL) if segment.executable else -1
        while at >= 0:
            yield segment.address + at
            at = segment.data.find(_SYSCALL, at + 1)


_INFO = InstructionInfoFactory()


def _after(instruction: Instruction, number: int | None) -> int | None:
    """The constant in eax after the instruction; None when it is not known."""
    if instruction.op_count == 2 and instruction.op0_register in (Register.EAX, Register.RAX):
        if instruction.code in _MOVES:
            return int(instruction.immediate(1)) & 0xFFFFFFFF
        if instruction.code in _CLEARS and instruction.op1_register == instruction.op0_register:
            return 0
    if instruction.flow_control in _CALLS:
        return None
    written = (used for used in _INFO.info(instruction).used_registers() if used.access not in _READS)
    return None if any(RegisterExt.full_register(used.register) == Register.RAX for used in written) else number
