# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether a variable has been written by the time that control comes to an instruction, as far as the first block of
its function tells. That block runs before all others in each call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from iced_x86 import FlowControl, Instruction, InstructionInfoFactory, MemorySizeExt, OpAccess, Register, UsedMemory

from gilk.arch.decode import signed
from gilk.arch.effects import effects, number_of, writes
from gilk.values import dataclass

_information: Final = InstructionInfoFactory()
_WRITES: Final = frozenset({OpAccess.WRITE, OpAccess.READ_WRITE})
_MAY_WRITE: Final = _WRITES | {OpAccess.COND_WRITE, OpAccess.READ_COND_WRITE}
_CALLS: Final = frozenset({FlowControl.CALL, FlowControl.INDIRECT_CALL})
_NO_STACK: Final = frozenset({Register.RIP})  # it leads to the program's own data
_FARTHEST: Final = 1 << 31
_LARGEST: Final = 1 << 16  # bytes of a variable that are counted one by one

#: For an instruction's address, the register (by the hardware's number) from which frames are found there, and the
#: distance of the canonical frame address above it; None if it is not known.
FrameAt = Callable[[int], tuple[int, int] | None]


@dataclass(frozen=True, slots=True)
class Written:
    """Whether a variable has been written. ``surely``: all of it. ``perhaps``: some of it may have been."""

    surely: bool
    perhaps: bool


def register_written(block: Iterable[Instruction], number: int) -> Written:
    """Whether a register, by the hardware's number, has been written by the end of the ``block``."""
    seen = list(block)
    surely = any(effects(each)[1] >> number & 1 for each in seen)
    return Written(surely, any(writes(each) >> number & 1 for each in seen))


def frame_written(block: Iterable[Instruction], frame: FrameAt, offset: int, size: int) -> Written:
    """Whether ``size`` bytes at ``offset`` from the canonical frame address have been written by the end of the
    ``block``."""
    if not 0 < size <= _LARGEST:
        return Written(False, True)
    missing, perhaps = set(range(offset, offset + size)), False
    for instruction in block:
        perhaps = perhaps or instruction.flow_control in _CALLS
        for used in _information.info(instruction).used_memory():
            if used.access not in _MAY_WRITE or used.base in _NO_STACK:
                continue
            written = _in_frame(instruction, used, frame)
            if written is None or not missing.isdisjoint(written):
                perhaps = True
            if written is not None and used.access in _WRITES:
                missing.difference_update(written)
    return Written(not missing, perhaps)


def _in_frame(instruction: Instruction, used: UsedMemory, frame: FrameAt) -> range | None:
    """The bytes, from the canonical frame address on, that an access is about; None if that is not known."""
    found, base = frame(instruction.ip), number_of(used.base) if used.base != Register.NONE else -1
    if found is None or base != found[0] or used.index != Register.NONE:
        return None
    distance = signed(used.displacement)
    size = MemorySizeExt.size(used.memory_size)
    if abs(distance) >= _FARTHEST or not size:
        return None
    start = distance - found[1]
    return range(start, start + size)
