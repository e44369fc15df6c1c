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
from gilk.arch.effects import effects
from gilk.targets.frames import ContextRegisters
from gilk.targets.memory import Memory
from gilk.targets.places import Places
from gilk.targets.rest_of_patch import RestOfPatch
from gilk.values import dataclass

_MOST: Final = 2000  # instructions that are followed
_WORD: Final = (1 << 64) - 1
_LONGEST_CALL: Final = 64  # bytes of a relocated call, at the most
_LONGEST: Final = 15  # bytes of an instruction


@dataclass(frozen=True, slots=True)
class Led:
    """A way out of a patch: to the ``place``, which is an original address, and whether its instruments have yet to
    run, with ``registers``. ``spoilt``: a mask of the registers that this patch has changed; the program does not need
    them."""

    place: tuple[int, bool]
    registers: ContextRegisters
    spoilt: int = 0


def way_out(
    registers: ContextRegisters, places: Places, memory: Memory, is_ours: Callable[[int], bool],
    unknown: Callable[[int], bool] | None = None,
) -> ContextRegisters | None:  # fmt: skip
    """The registers with which a context that has ``registers``, amid a patch of ``places`` or inside a function that
    such a patch has called, goes on without the patch: at the original instruction that comes next. ``is_ours``:
    whether an address is in gilk's memory.

    None if the rest does more than restore registers (advice decides what the program does), or if it goes to another
    stack, or to an address that is ``unknown``.
    """
    called = _before_call(registers, places, memory)
    if called is not None:
        return replace(called.registers, rip=called.place[0])
    rest = RestOfPatch(registers, places, memory)
    place = _end(rest, places, is_ours, unknown)
    return None if place is None else rest.registers(place[0])


def way_out_of_shown(
    registers: ContextRegisters, places: Places, memory: Memory, is_ours: Callable[[int], bool]
) -> ContextRegisters | None:
    """The same if only the patches of ``places`` are known, and not the functions: None, too, if the rest does not stay
    in those patches. A patch that is not known would be taken for a function."""

    def unknown(address: int) -> bool:
        return is_ours(address) and not places.in_patch(address)

    return way_out(registers, places, memory, is_ours, unknown)


def between_instruments(
    registers: ContextRegisters, places: Places, memory: Memory, is_ours: Callable[[int], bool]
) -> Led | None:
    """The way out if all instruments that come next have yet to begin, or none is left: then none is left out, and none
    runs twice, whatever patch the context goes on in.

    None if that is not so or is not known.
    """
    called = _before_call(registers, places, memory)
    if called is not None or not places.in_patch(registers.rip):
        return called
    rest = RestOfPatch(registers, places, memory)
    end = _end(rest, places, is_ours)
    if end is None or not rest.work:
        return None if end is None else Led(end, rest.registers(end[0]))
    start = places.begins(rest.rip)
    place = None if start is None else places.original(start)
    if start is None or place is None:
        return None
    done = RestOfPatch(replace(registers, rip=start), places, memory)
    if not _comes_without_work(done, places, registers.rip):
        return None
    restored = RestOfPatch(registers, places, memory, done.spoilt)
    _end(restored, places, is_ours)
    return Led(place, rest.registers(place[0]), restored.spoilt)


def reads_none(registers: int, start: int, places: Places, memory: Memory) -> bool:
    """Whether instruments of a patch of ``places``, which begin at ``start``, overwrite these registers, a mask, before
    they read them, or do not use them."""
    address = start
    for _ in range(_MOST):
        if not registers or (address != start and places.original(address) is not None):
            return True
        instruction = decode.decode_one(memory.some(address, _LONGEST), address)
        reads, kills = effects(instruction)
        if instruction.flow_control not in (decode.NEXT, decode.BRANCH) or reads & registers:
            return False
        registers &= ~kills
        address = int(instruction.next_ip)
    return False


def _comes_without_work(done: RestOfPatch, places: Places, rip: int) -> bool:
    """Whether a context that begins where ``done`` is comes to ``rip`` before an instrument has done anything."""
    begin = done.rip
    for _ in range(_MOST):
        if done.rip == rip:
            return not done.work
        if done.rip != begin and places.original(done.rip) is not None:
            return False  # the end of the instruments: it has gone another way
        if not places.in_patch(done.rip) or not done.step(executed=True):
            return False
    return False


def _end(
    rest: RestOfPatch, places: Places, is_ours: Callable[[int], bool], unknown: Callable[[int], bool] | None = None
) -> tuple[int, bool] | None:
    """Follow the rest of a patch to its end, where it comes to a place with an equal or leaves gilk's memory; returns
    that place; None if that is not possible, or if it comes to an address that is ``unknown``."""
    for _ in range(_MOST):
        if unknown is not None and unknown(rest.rip):
            return None
        place = places.original(rest.rip)
        if place is not None:
            return place
        if not is_ours(rest.rip):
            return (rest.rip, True) if rest.jumped else None
        if not rest.step():
            return None
    return None


def _before_call(registers: ContextRegisters, places: Places, memory: Memory) -> Led | None:
    """The way of a context amid a relocated call back to before the call; None if it is not amid one. All that the
    relocated call has done is to write below the stack pointer."""
    start = places.begun(registers.rip)
    place = None if start is None else places.original(start)
    if start is None or place is None or registers.rip not in _parts_of_call(start, memory):
        return None
    general = list(registers.general)
    general[asm.RSP] = general[asm.RSP] + 8 & _WORD
    return Led(place, replace(registers, general=tuple(general), rip=place[0]))


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
