# SPDX-License-Identifier: LGPL-2.1-or-later
"""Portable plans among others of the same image: which bytes are theirs, as the registry of a ground has to know.

A placed plan claims its bytes whether it is in force or not; what is
planned besides keeps away from them.
"""

from __future__ import annotations

import numpy as np

from gilk.splice.ground import Ground
from gilk.splice.portable import Array, Portable


def site_bytes(portable: Portable) -> tuple[Array, Array]:
    """Every byte that sites change, in their order: its address, and the unit."""
    size = portable.site_size.astype(np.int64)
    at = np.repeat(portable.site_at - np.cumsum(size) + size, size) + np.arange(len(portable.new))
    return at, np.repeat(portable.site_unit, size)


def pinned(portable: Portable) -> tuple[Array, Array, Array]:
    """The bytes that puns share with the code behind them: from, to, and the unit."""
    sites = np.flatnonzero(portable.site_shared)
    low = portable.site_at[sites].astype(np.int64) + portable.site_size[sites]
    return low, low + portable.site_shared[sites], portable.site_unit[sites]


def conflicts(ground: Ground, portable: Portable) -> Array:
    """Whether each unit needs bytes that other plans use, or would change."""
    lost = np.zeros(len(portable.unit_start), np.bool_)
    at, unit = site_bytes(portable)
    lost[unit[ground.registry.taken(at)]] = True
    for low, high, owner in zip(*(column.tolist() for column in pinned(portable)), strict=True):
        lost[owner] |= not ground.registry.unclaimed(low, high)
    return lost


def claim(ground: Ground, portable: Portable, new: Array, units: Array) -> None:
    """From now on the ground's plans keep away from ``units``. ``new``: the bytes of all sites, as they were placed."""
    at, unit = site_bytes(portable)
    rows = units[unit]
    ground.registry.claim_bytes(at[rows], new[rows])
    for low, high, owner in zip(*(column.tolist() for column in pinned(portable)), strict=True):
        if units[owner]:
            ground.registry.pin(low, high)


def unclaim(ground: Ground, portable: Portable, units: Array) -> None:
    """The opposite of ``claim``."""
    at, unit = site_bytes(portable)
    ground.registry.release_bytes(at[units[unit]])
    for low, high, owner in zip(*(column.tolist() for column in pinned(portable)), strict=True):
        if units[owner]:
            ground.registry.unpin(low, high)
