# SPDX-License-Identifier: LGPL-2.1-or-later
"""Templates of plans (splice/template.py) for targets: the reference layout in which they are made, and their placement
in a target.

The reference layout is an image alone, with an arena that has the same runtime as every other. Plans made there fit
elsewhere, except that the page of a pun may be taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from gilk.analysis.analysis import Analysis
from gilk.arch.asm import JMP32, JUMP_SIZE
from gilk.splice.allocator import PAGE, Arena, Occupied, PunPages
from gilk.splice.host import ClientPart, Host, SideThunks
from gilk.splice.patch_context import PatchContext
from gilk.splice.plan import FunctionPlan, Refusal, Site, Splice
from gilk.splice.policy import PORTABLE
from gilk.splice.tactics.table import NAMES, OUTCOMES, TACTICS
from gilk.splice.template import Array, PlanTemplate, as_words, tactic_of
from gilk.targets.batch import Batch, Byte, Int
from gilk.toolchain.runtime import runtime
from gilk.values import dataclass

_BIAS = 0x555555554000
_ARENA = 1 << 28
_GAP = 1 << 20
#: How much farther from the image an arena may lie than in the reference layout: a pun must reach it even so.
_SWAY = 1 << 29
_MOST_PUN_PAGES = 1 << 20
_FARTHEST = 1 << 31


# The reference layout.


@dataclass(frozen=True, slots=True)
class Shape:
    """The facts, besides addresses, on which the code of instruments depends (splice/host.py, Host). ``part``: the
    number of the client in whose memory counters and rings lie; 0: in the session's own."""

    counters: int
    rings: tuple[tuple[int, int], ...]
    assume_live: int = 0
    part: int = 0

    @property
    def own(self) -> ClientPart | None:
        """The client's memory to which inlined instruments write; None: that of the session."""
        return ClientPart(self.part, self.counters, self.rings) if self.part else None

    def host(self, base: int) -> Host:
        """The Host for the arena at ``base``. Raises CompileError."""
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
    """The number of bytes of an arena that the runtime takes."""
    return len(runtime().code) + 63 & -64


def stand_in(ground: PatchContext) -> int:
    """An address in the arena where nothing else comes to lie, in place of a function that instruments call."""
    return ground.arena.base + ground.arena.size - 1


def reference_ground(analysis: Analysis, shape: Shape) -> PatchContext:
    """The context for making plans in the reference layout. Raises CompileError."""
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


# At the addresses of one target.


@dataclass(frozen=True, slots=True)
class Spot:
    """The addresses at which a template is placed: the image's load bias, the block of patches, the arena, and the
    function that instruments call."""

    bias: int
    block: int
    arena: int
    callee: int = 0


@dataclass(frozen=True)
class Placed:
    """A placed template. ``code`` is for the spot's block; ``jumps`` of puns, five bytes each, are for the addresses
    ``jump_at``. ``lost``: for each unit, whether a displacement in it does not reach its target from there."""

    batch: Batch
    code: Byte
    jump_at: Int
    jumps: Byte
    jump_unit: Int
    lost: Array


@dataclass(frozen=True)
class PlacedBatch:
    """The ``units`` (a mask) of a template that are staged under a number. ``new``: the bytes of all sites of the
    template."""

    number: int
    batch: Batch
    new: Byte
    units: Array


def plans(template: PlanTemplate, new: Byte, bias: int, keys: Mapping[int, int]) -> dict[int, FunctionPlan]:
    """Plans of some units, by the unit, with enough in them to undo the units and to keep other plans away. Other parts
    of the batch, such as the places of patches, are left out.

    ``keys``: the keys of all rows of these units, by row. ``new``: the bytes of all sites.
    """
    rows = np.array(list(keys), np.int64)
    units = template.row_unit[rows]
    splices = _splices(template, new, bias, units)
    tactics, refusals = (defaultdict[int, dict[int, str]](dict) for _ in range(2))
    for key, unit, how in zip(keys.values(), units.tolist(), template.row_outcome[rows].tolist(), strict=True):
        (tactics if how < len(NAMES) else refusals)[unit][key] = OUTCOMES[how]
    names = template.unit_names
    return {
        unit: FunctionPlan(
            names[unit], tuple(splices[unit]), tactics=tactics[unit],
            refusals={key: Refusal(why) for key, why in refusals[unit].items()},
        )
        for unit in dict.fromkeys(units.tolist())
    }  # fmt: skip


def _splices(template: PlanTemplate, new: Byte, bias: int, units: Array) -> dict[int, list[Splice]]:
    splices = defaultdict[int, list[Splice]](list)
    before, after = template.old.tobytes(), new.tobytes()
    sites = np.flatnonzero(np.isin(template.site_unit, units))
    names = ("site_at", "site_size", "site_tactic", "site_shared", "site_unit")
    columns = (np.cumsum(template.site_size, dtype=np.int64), *(getattr(template, name) for name in names))
    for end, at, size, tactic, behind, unit in zip(*(column[sites].tolist() for column in columns), strict=True):
        site = Site(at + bias, before[end - size : end], after[end - size : end])
        shared = (site.end, site.end + behind) if behind else None
        made = splices[unit]
        if made and TACTICS[made[-1].tactic].bounces and not made[-1].bounce:
            made[-1] = made[-1]._replace(bounce=site, shared=shared)
        else:
            made.append(Splice(tactic_of(tactic), 0, site, shared=shared))
    return splices


def place(template: PlanTemplate, spot: Spot, iids: Array) -> Placed:
    """Place all units, with the iids of all rows. The caller decides which of them are put in: the bytes that puns jump
    to must be free."""
    lost = np.zeros(len(template.unit_start), np.bool_)
    code = _code(template, spot, iids, lost)
    new = _new(template, spot, lost)
    jump_at, jumps, jump_unit = _jumps(template, spot, lost)
    return Placed(_batch(template, spot, new), code, jump_at, jumps, jump_unit, lost)


def _code(template: PlanTemplate, spot: Spot, iids: Array, lost: Array) -> Byte:
    code = template.code.copy()
    for at, origin in ((template.text, spot.bias), (template.runtime, spot.arena), (template.callee, spot.callee)):
        bad = _shift(as_words(code), at, origin - spot.block)
        if len(bad):
            lost[_units_of(template, at[bad])] = True
    words = as_words(code).view("<u4")
    words[template.holes] = iids[words[template.holes]]
    low, high = template.words, template.words + 8
    address = (words[low].astype(np.int64) | words[high].astype(np.int64) << 32) + spot.bias
    words[low], words[high] = (address & 0xFFFFFFFF).astype(np.uint32), (address >> 32).astype(np.uint32)
    return code


def _shift(words: Array, at: Array, distance: int) -> Array:
    """Add ``distance`` to the fields ``at``; returns the indices of those whose value does not fit any more."""
    before = words[at]
    if not len(before):
        return np.empty(0, np.int64)
    if not -_FARTHEST <= int(before.min()) + distance <= int(before.max()) + distance < _FARTHEST:
        wide = before.astype(np.int64) + distance
        words[at] = wide.astype(np.int32)
        return np.flatnonzero((wide < -_FARTHEST) | (wide >= _FARTHEST))
    words[at] = before + np.int32(distance)
    return np.empty(0, np.int64)


def _units_of(template: PlanTemplate, at: Array) -> Array:
    """The units to which the offsets ``at`` of the block belong."""
    inside = np.flatnonzero(template.patch_inside)
    order = inside[np.argsort(template.patch_at[inside], kind="stable")]
    return template.patch_unit[order[np.searchsorted(template.patch_at[order], at, side="right") - 1]]


def _new(template: PlanTemplate, spot: Spot, lost: Array) -> Byte:
    """The new bytes of all sites, with displacements to their patches."""
    new = template.new.copy()
    ends = np.cumsum(template.site_size, dtype=np.int64)
    leading = np.flatnonzero(template.site_leads >= 0)
    behind = template.site_at[leading].astype(np.int64) + template.site_size[leading]
    distance = template.site_leads[leading].astype(np.int64) - behind + (spot.block - spot.bias)
    as_words(new)[ends[leading] - 4] = distance.astype(np.int32)
    lost[template.site_unit[leading[_far(distance)]]] = True
    return new


def _jumps(template: PlanTemplate, spot: Spot, lost: Array) -> tuple[Int, Byte, Int]:
    outside = np.flatnonzero(~template.patch_inside)
    at = template.patch_at[outside] + spot.bias
    unit = template.patch_unit[outside].astype(np.int64)
    distance = template.patch_leads[outside].astype(np.int64) + spot.block - at - JUMP_SIZE
    lost[unit[_far(distance)]] = True
    jumps = np.empty((len(at), JUMP_SIZE), np.uint8)
    jumps[:, 0] = JMP32[0]
    jumps[:, 1:] = distance.astype("<i4").view(np.uint8).reshape(-1, 4)
    return at, jumps, unit


def _far(distance: Int) -> Array:
    far: Array = (distance < -_FARTHEST) | (distance >= _FARTHEST)
    return far


def _batch(template: PlanTemplate, spot: Spot, new: Byte) -> Batch:
    size = template.site_size.astype(np.int64)
    starts = template.site_at + (spot.bias - np.cumsum(size) + size)  # each less the number of bytes before it
    low = template.patch_at + np.where(template.patch_inside, spot.block, spot.bias)
    return Batch(
        template.unit_names,
        np.repeat(starts, size) + np.arange(len(new)), template.old, new, _wide(np.repeat(template.site_unit, size)),
        template.same_patch + np.where(template.same_inside, spot.block, spot.bias),
        template.same_original + np.int64(spot.bias), template.same_before, _wide(template.same_unit),
        template.displaced + np.int64(spot.bias), _wide(template.displaced_unit),
        low, low + template.patch_size, _wide(template.patch_unit),
    )  # fmt: skip


def _wide(array: Array) -> Int:
    return array.astype(np.int64)
