# SPDX-License-Identifier: LGPL-2.1-or-later
"""A context to make portable plans in: an image alone, with an arena that has the runtime of every other.

Plans made there fit elsewhere, except that the page of a pun may be taken.
"""

from __future__ import annotations

from gilk.analysis.analysis import Analysis
from gilk.build.runtime import runtime
from gilk.splice.allocator import PAGE, Arena, Occupied, PunPages
from gilk.splice.instrument import Host, SideThunks
from gilk.splice.patch_context import PatchContext
from gilk.splice.policy import PORTABLE
from gilk.values import dataclass

_BIAS = 0x555555554000
_ARENA = 1 << 28
_GAP = 1 << 20
#: An arena may lie to either side of an image, this far from where it is here: a pun must reach it even so.
_SWAY = 1 << 29
_MOST_PUN_PAGES = 1 << 20


@dataclass(frozen=True, slots=True)
class Shape:
    """The facts on which the code of instruments depends, besides addresses (splice/instrument.py, Host)."""

    counters: int
    rings: tuple[tuple[int, int], ...]
    assume_live: int = 0

    def host(self, base: int) -> Host:
        """For the arena at ``base``. Raises CompileError."""
        at = {name: base + offset for name, offset in runtime().symbols.items()}
        return Host(
            key=base - PAGE,
            claim=at["gilk_claim_thunk"],
            counters=self.counters,
            rings=self.rings,
            thunk=at["gilk_registers_thunk"],
            thunk_vector=at["gilk_vector_thunk"],
            base=base,
            assume_live=self.assume_live,
            side_thunks=SideThunks(
                at["gilk_side_claim_thunk"],
                at["gilk_side_registers_thunk"],
                at["gilk_side_vector_thunk"],
                at["gilk_side_plain_thunk"],
                at["gilk_side_values_thunk"],
            ),
        )


def runtime_room() -> int:
    """Bytes of an arena that the runtime takes."""
    return len(runtime().code) + 63 & -64


def stand_in(ground: PatchContext) -> int:
    """For a function that instruments call: an address in the arena where nothing else comes to lie."""
    return ground.arena.base + ground.arena.size - 1


def blank_ground(analysis: Analysis, shape: Shape) -> PatchContext:
    """Raises CompileError."""
    image = analysis.image
    bias = _BIAS if image.position_independent else 0
    low = min(s.address for s in image.segments) + bias & -PAGE
    high = max(s.address + s.size for s in image.segments) + bias + PAGE & -PAGE
    base = low - _ARENA - _GAP if low > _ARENA + 2 * _GAP else high + _GAP
    nearest, farthest = max(high + _SWAY - (1 << 31), 0), low - _SWAY + (1 << 31)
    own = sorted(((low, high), (base - PAGE, base + _ARENA)))
    taken = Occupied(((0, nearest), *own, (farthest, 1 << 64)) if nearest < own[0][0] else tuple(own))
    return PatchContext(
        analysis, bias, Arena(base, _ARENA, 0, runtime_room()), PunPages(taken, _ARENA, _MOST_PUN_PAGES),
        shape.host(base), PORTABLE, keeps_code=True,
    )  # fmt: skip
