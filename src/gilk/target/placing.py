# SPDX-License-Identifier: LGPL-2.1-or-later
"""Puts portable plans (splice/portable.py) at the addresses of one target: a few operations on arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from gilk.arch.asm import JMP32, JUMP_SIZE
from gilk.splice.plan import FunctionPlan, Site, Splice
from gilk.splice.portable import Array, Portable, as_words, tactic_of
from gilk.splice.tactics.table import TACTICS
from gilk.target.batch import Batch, Byte, Int
from gilk.values import dataclass

_FARTHEST = 1 << 31


@dataclass(frozen=True, slots=True)
class Spot:
    """Where things lie: the image's load bias, the block of patches, the arena, the function that instruments call."""

    bias: int
    block: int
    arena: int
    callee: int = 0


@dataclass(frozen=True)
class Placed:
    """``code`` is for the spot's block; ``jumps`` of puns, five bytes each, are for ``jump_at``.

    ``lost``: of each unit, whether something in it does not reach what it means from there.
    """

    batch: Batch
    code: Byte
    jump_at: Int
    jumps: Byte
    jump_unit: Int
    lost: Array


def plans(portable: Portable, placed: Placed, bias: int, keys: Mapping[int, int]) -> dict[int, FunctionPlan]:
    """The plans of units with one probe each, by ``keys``: enough of them to be undone, and to be in the way of others.

    The rest of the batch, such as the places of patches, is not in it.
    """
    splices = defaultdict[int, list[Splice]](list)
    old, new = placed.batch.old.tobytes(), placed.batch.new.tobytes()
    ends = np.cumsum(portable.site_size, dtype=np.int64)
    names = ("site_at", "site_size", "site_tactic", "site_shared", "site_unit")
    columns = (ends, *(getattr(portable, name) for name in names))
    for end, at, size, tactic, behind, unit in zip(*(column.tolist() for column in columns), strict=True):
        site = Site(at + bias, old[end - size : end], new[end - size : end])
        shared = (site.end, site.end + behind) if behind else None
        made = splices[unit]
        if made and TACTICS[made[-1].tactic].bounces and not made[-1].bounce:
            made[-1] = made[-1]._replace(bounce=site, shared=shared)
        else:
            made.append(Splice(tactic_of(tactic), 0, site, shared=shared))
    outcomes = dict(zip(portable.row_unit.tolist(), portable.row_outcome.tolist(), strict=True))
    return {
        unit: FunctionPlan(portable.unit_names[unit], tuple(splices[unit]), tactics={key: tactic_of(outcomes[unit])})
        for unit, key in keys.items()
    }


def place(portable: Portable, spot: Spot, iids: Array) -> Placed:
    """Place all units, with the iids of all rows. The caller decides which may be put in: the bytes below puns must be
    free."""
    lost = np.zeros(len(portable.unit_start), np.bool_)
    code = _code(portable, spot, iids, lost)
    new = _new(portable, spot, lost)
    jump_at, jumps, jump_unit = _jumps(portable, spot, lost)
    return Placed(_batch(portable, spot, new), code, jump_at, jumps, jump_unit, lost)


def _code(portable: Portable, spot: Spot, iids: Array, lost: Array) -> Byte:
    code = portable.code.copy()
    for at, origin in ((portable.text, spot.bias), (portable.runtime, spot.arena), (portable.callee, spot.callee)):
        bad = _shift(as_words(code), at, origin - spot.block)
        if len(bad):
            lost[_units_of(portable, at[bad])] = True
    words = as_words(code).view("<u4")
    words[portable.holes] = iids[words[portable.holes]]
    low, high = portable.words, portable.words + 8
    address = (words[low].astype(np.int64) | words[high].astype(np.int64) << 32) + spot.bias
    words[low], words[high] = (address & 0xFFFFFFFF).astype(np.uint32), (address >> 32).astype(np.uint32)
    return code


def _shift(words: Array, at: Array, distance: int) -> Array:
    """Add ``distance`` to the fields ``at``; which of them do not hold what they should then."""
    before = words[at]
    if not len(before):
        return np.empty(0, np.int64)
    if not -_FARTHEST <= int(before.min()) + distance <= int(before.max()) + distance < _FARTHEST:
        wide = before.astype(np.int64) + distance
        words[at] = wide.astype(np.int32)
        return np.flatnonzero((wide < -_FARTHEST) | (wide >= _FARTHEST))
    words[at] = before + np.int32(distance)
    return np.empty(0, np.int64)


def _units_of(portable: Portable, at: Array) -> Array:
    """Units of places in the block."""
    inside = np.flatnonzero(portable.patch_inside)
    order = inside[np.argsort(portable.patch_at[inside], kind="stable")]
    return portable.patch_unit[order[np.searchsorted(portable.patch_at[order], at, side="right") - 1]]


def _new(portable: Portable, spot: Spot, lost: Array) -> Byte:
    """The sites' bytes, with where they lead."""
    new = portable.new.copy()
    ends = np.cumsum(portable.site_size, dtype=np.int64)
    leading = np.flatnonzero(portable.site_leads >= 0)
    behind = portable.site_at[leading].astype(np.int64) + portable.site_size[leading]
    distance = portable.site_leads[leading].astype(np.int64) - behind + (spot.block - spot.bias)
    as_words(new)[ends[leading] - 4] = distance.astype(np.int32)
    lost[portable.site_unit[leading[_far(distance)]]] = True
    return new


def _jumps(portable: Portable, spot: Spot, lost: Array) -> tuple[Int, Byte, Int]:
    outside = np.flatnonzero(~portable.patch_inside)
    at = portable.patch_at[outside] + spot.bias
    unit = portable.patch_unit[outside].astype(np.int64)
    distance = portable.patch_leads[outside].astype(np.int64) + spot.block - at - JUMP_SIZE
    lost[unit[_far(distance)]] = True
    jumps = np.empty((len(at), JUMP_SIZE), np.uint8)
    jumps[:, 0] = JMP32[0]
    jumps[:, 1:] = distance.astype("<i4").view(np.uint8).reshape(-1, 4)
    return at, jumps, unit


def _far(distance: Int) -> Array:
    far: Array = (distance < -_FARTHEST) | (distance >= _FARTHEST)
    return far


def _batch(portable: Portable, spot: Spot, new: Byte) -> Batch:
    size = portable.site_size.astype(np.int64)
    starts = portable.site_at + (spot.bias - np.cumsum(size) + size)  # each less how many bytes come before
    low = portable.patch_at + np.where(portable.patch_inside, spot.block, spot.bias)
    return Batch(
        portable.unit_names,
        np.repeat(starts, size) + np.arange(len(new)), portable.old, new, _wide(np.repeat(portable.site_unit, size)),
        portable.same_patch + np.where(portable.same_inside, spot.block, spot.bias),
        portable.same_original + np.int64(spot.bias), portable.same_before, _wide(portable.same_unit),
        portable.displaced + np.int64(spot.bias), _wide(portable.displaced_unit),
        low, low + portable.patch_size, _wide(portable.patch_unit),
    )  # fmt: skip


def _wide(array: Array) -> Int:
    return array.astype(np.int64)
