# SPDX-License-Identifier: LGPL-2.1-or-later
"""Puns: jumps whose displacement shares its last bytes with the code behind them, and the trampolines that they lead
to.

The code behind a pun may have several *states*, if a function's splice there comes and goes (PunSharing.EITHER). The
pun's own bytes are the same in each state and the shared bytes are not, so the pun leads to a different trampoline in
each.
"""

from __future__ import annotations

import itertools

from gilk.analysis.model import Function
from gilk.arch.asm import JMP32, JMP_NEXT, JUMP_SIZE
from gilk.splice.allocator import FAR_TRAMPOLINE, TRAMPOLINE
from gilk.splice.patch_context import PatchContext
from gilk.splice.policy import PunSharing
from gilk.values import dataclass

IDLE_PREFIX = b"\x2e"  # cs, without meaning before a direct jump or call
_MOST_STATES = 4
_TRIES = 64


@dataclass(frozen=True, slots=True)
class Pun:
    """``new`` are the bytes of the site, ``trampolines`` the places that it leads to, and ``end`` is the end of the
    shared bytes.
    """

    new: bytes
    trampolines: tuple[int, ...]
    end: int


def find(context: PatchContext, function: Function, at: int, own: int, far: bool) -> Pun | None:
    """A pun at link-time address ``at``, with ``own`` bytes of its own; None if there is none. Prefixes move the
    displacement along, and so change which bytes it shares. ``far``: a trampoline may lie out of reach of the arena.
    """
    return next(filter(None, (_behind(context, function, at, own, prefix, far) for prefix in range(own))), None)


def _behind(context: PatchContext, function: Function, at: int, own: int, prefix: int, far: bool) -> Pun | None:
    free = own - 1 - prefix
    end = at + prefix + JUMP_SIZE
    states = _states(context, function, at + own, end)
    origin = end + context.bias
    lows = [origin + int.from_bytes(bytes(free) + shared, "little", signed=True) for shared in states]
    found = _trampolines(context, lows, 1 << 8 * free, far and context.policy.sharing is not PunSharing.NEVER)
    if found is None:
        return None
    distance = (found[0] - origin).to_bytes(4, "little", signed=True)
    return Pun((IDLE_PREFIX * prefix + JMP32 + distance)[:own], found, end)


def _states(context: PatchContext, function: Function, low: int, high: int) -> list[bytes]:
    """All contents that [low, high) may have while the function's splices are in force; empty if a pun may not depend
    on it.
    """
    registry, sharing = context.registry, context.policy.sharing
    settled = registry.read(low, high - low)
    if len(settled) != high - low:
        return []
    if sharing is PunSharing.SETTLED or registry.unclaimed(low, high):
        return [settled]
    if sharing is PunSharing.NEVER:
        return []
    pieces: list[tuple[bytes, ...]] = []
    while low < high:
        span = context.analysis.image.span_at(low)
        end = min(span.end, high) if span else low + 1
        spliced, plain = registry.read(low, end - low), registry.original(low, end - low)
        if span is None and not registry.unclaimed(low, end):
            return []  # padding, of which several functions may have taken a part
        own = function.start <= low < function.end
        pieces.append((spliced,) if own or spliced == plain else (plain, spliced))
        low = end
    states = [b"".join(state) for state in itertools.product(*pieces)]
    return states if len(states) <= _MOST_STATES else []


def _trampolines(context: PatchContext, lows: list[int], size: int, far: bool) -> tuple[int, ...] | None:
    """A trampoline for each of ``lows``, at the same distance from each, which is less than ``size``; None if there is
    none.
    """
    if len(lows) < 2:
        found = _anywhere(context, lows[0], size, far) if lows else None
        return None if found is None else (found,)
    for offset in range(0, size, max(TRAMPOLINE, size // _TRIES)):
        found_all = _all_at(context, [low + offset for low in lows], far)
        if found_all is not None:
            return found_all
    return None


def _anywhere(context: PatchContext, low: int, size: int, far: bool) -> int | None:
    nearest, farthest = context.arena.reach
    found = context.puns.allocate(max(low, nearest), min(low + size, farthest))
    if found is None and far:
        found = context.puns.allocate(low, low + size, FAR_TRAMPOLINE)
    return found


def _all_at(context: PatchContext, places: list[int], far: bool) -> tuple[int, ...] | None:
    puns = context.puns
    mark = puns.mark()
    if all(puns.may_have(at) for at in places):
        found = [_anywhere(context, at, 1, far) for at in places]
        if None not in found:
            return tuple(at for at in found if at is not None)
    puns.reset(mark)
    return None


def trampoline(context: PatchContext, at: int, patch: int) -> bytes:
    """The code at address ``at``: a jump to the patch, through memory if the patch is too far."""
    nearest, farthest = context.arena.reach
    if nearest <= at < farthest:
        return JMP32 + (patch - (at + JUMP_SIZE)).to_bytes(4, "little", signed=True)
    return JMP_NEXT + patch.to_bytes(8, "little")
