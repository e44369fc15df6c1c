# SPDX-License-Identifier: LGPL-2.1-or-later
"""Puts portable plans (splice/portable.py) at the addresses of one target: a few operations on arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gilk.arch.asm import JMP32
from gilk.splice.portable import JUMP_SIZE, Array, Portable
from gilk.target.batch import Batch, Byte, Int

_FARTHEST = 1 << 31


@dataclass(frozen=True, slots=True)
class Spot:
    """Where things lie: the image's load bias, the block of patches, the arena; ``first`` is the first row's iid."""

    bias: int
    block: int
    arena: int
    first: int


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


def place(portable: Portable, spot: Spot) -> Placed:
    """Everything there is. What may be put in is for others to say: the bytes below puns must be free."""
    lost = np.zeros(len(portable.unit_start), np.bool_)
    code = _code(portable, spot, lost)
    new = _new(portable, spot, lost)
    jump_at, jumps, jump_unit = _jumps(portable, spot, lost)
    return Placed(_batch(portable, spot, new), code, jump_at, jumps, jump_unit, lost)


def _code(portable: Portable, spot: Spot, lost: Array) -> Byte:
    code = portable.code.copy()
    for at, distance in ((portable.text, spot.bias - spot.block), (portable.runtime, spot.arena - spot.block)):
        bad = _shift(_words(code), at, distance)
        if len(bad):
            lost[_units_of(portable, at[bad])] = True
    words = _words(code).view("<u4")
    words[portable.holes] += np.uint32(spot.first)
    low, high = portable.words, portable.words + 8
    address = (words[low].astype(np.int64) | words[high].astype(np.int64) << 32) + spot.bias
    words[low], words[high] = (address & 0xFFFFFFFF).astype(np.uint32), (address >> 32).astype(np.uint32)
    return code


def _words(data: Byte) -> Array:
    """The 32 bits from each byte on."""
    return np.ndarray(max(len(data) - 3, 0), "<i4", data.data, strides=(1,))


def _shift(words: Array, at: Array, distance: int) -> Array:
    """Add ``distance`` to the fields ``at``; which of them do not hold what they should then."""
    before = words[at]
    if len(before) and not -_FARTHEST <= int(before.min()) + distance <= int(before.max()) + distance < _FARTHEST:
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
    _words(new)[ends[leading] - 4] = distance.astype(np.int32)
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
