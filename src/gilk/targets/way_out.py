# SPDX-License-Identifier: LGPL-2.1-or-later
"""Works out where a context that waits amid a patch goes on in the original code, and with which registers.

A patch saves registers that the program still needs, runs its instrument, restores them and goes on (splice/frame.py).
A context may wait there for ever: a signal handler that has switched stacks need not come back. So the rest of the
patch is followed on paper, without its instrument (rest_of_patch.py).

The context's stack is only read. It may be in use by others, if the context will never go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from gilk.arch import asm, decode
from gilk.targets.frames import ContextRegisters
from gilk.targets.memory import Memory
from gilk.targets.places import Places
from gilk.targets.rest_of_patch import RestOfPatch

_MOST: Final = 2000  # instructions that are followed
_WORD: Final = (1 << 64) - 1
_LONGEST_CALL: Final = 64  # bytes of a relocated call, at the most


def way_out(
    registers: ContextRegisters, places: Places, memory: Memory, is_ours: Callable[[int], bool]
) -> ContextRegisters | None:
    """The registers with which a context that has ``registers``, amid a patch of ``places`` or inside a function that
    such a patch has called, goes on without the patch: at the original instruction that comes next. ``is_ours``:
    whether an address is in gilk's memory.

    None if the rest does more than restore registers (advice decides what the program does), or if it goes to another
    stack.
    """
    called = _before_call(registers, places, memory)
    if called is not None:
        return called
    rest = RestOfPatch(registers, places, memory)
    for _ in range(_MOST):
        place = places.original(rest.rip)
        if place is not None:
            return rest.registers(place[0])
        if not is_ours(rest.rip):
            return rest.registers(rest.rip) if rest.jumped else None
        if not rest.step():
            return None
    return None


def _before_call(registers: ContextRegisters, places: Places, memory: Memory) -> ContextRegisters | None:
    """The registers of a context amid a relocated call, led back to before the call; None if it is not amid one. All
    that the relocated call has done is to write below the stack pointer."""
    start = places.begun(registers.rip)
    place = None if start is None else places.original(start)
    if start is None or place is None or registers.rip not in _parts_of_call(start, memory):
        return None
    general = list(registers.general)
    general[asm.RSP] = general[asm.RSP] + 8 & _WORD
    return replace(registers, general=tuple(general), rip=place[0])


def _parts_of_call(start: int, memory: Memory) -> tuple[int, ...]:
    """The addresses of the instructions of a relocated call (splice/relocate.py) that begins at ``start``, but for the
    first; none if no relocated call begins there."""
    code = memory.some(start, _LONGEST_CALL)
    if not code.startswith(asm.CALL_NEXT):
        return ()
    found = []
    for instruction in decode.decode(code[len(asm.CALL_NEXT) :], start + len(asm.CALL_NEXT)):
        found.append(int(instruction.ip))
        if instruction.flow_control != decode.NEXT:
            break
    return tuple(found)
