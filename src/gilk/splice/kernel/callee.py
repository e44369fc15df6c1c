# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads from the code of a compiled instrument the registers that it changes, so that a patch saves no more than it
must.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from gilk.arch import asm, effects
from gilk.arch import decode as x86


class Callee(NamedTuple):
    """The facts about a compiled instrument: ``clobbers`` are the registers that it may change, and ``numbered`` says
    whether it may read its iid.
    """

    clobbers: int
    numbered: bool


def examine(code: bytes, address: int, returns: Container[int] = ()) -> Callee:
    """The facts about a function that keeps to the calling convention, and of which ``code`` is the whole.

    A function that calls or jumps to other code may change all registers that the convention allows. ``returns``: the
    addresses a jump to which is a return (Image.returns). Traps behind returns are ignored.
    """
    changed = read = 0
    for instruction in x86.decode(code, address):
        if x86.is_trap(instruction) or instruction.near_branch_target in returns:
            continue
        if _leaves(instruction.flow_control, instruction.near_branch_target - address, len(code)):
            return Callee(effects.CALLER_SAVED, True)
        changed |= effects.writes(instruction)
        read |= effects.effects(instruction)[0]
    return Callee(changed & effects.CALLER_SAVED, bool(read >> asm.RDI & 1))


def _leaves(flow: int, offset: int, size: int) -> bool:
    if flow in (x86.NEXT, x86.RETURN):
        return False
    return flow not in (x86.JUMP, x86.BRANCH) or not 0 <= offset < size
