# SPDX-License-Identifier: LGPL-2.1-or-later
"""Portable plans among others of the same image: which bytes are theirs, as the registry of a context has to know.

A placed plan claims its bytes whether it is in force or not; what is
planned besides keeps away from them.
"""

from __future__ import annotations

import numpy as np

from gilk.splice.patch_context import PatchContext
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


def conflicts(context: PatchContext, portable: Portable) -> Array:
    """Whether each unit needs bytes that other plans use, or would change."""
    lost = np.zeros(len(portable.unit_start), np.bool_)
    at, unit = site_bytes(portable)
    lost[unit[context.registry.taken(at)]] = True
    for low, high, owner in zip(*(column.tolist() for column in pinned(portable)), strict=True):
        lost[owner] |= not context.registry.unclaimed(low, high)
    return lost


def claim(context: PatchContext, portable: Portable, new: Array, units: Array) -> None:
    """From now on its plans keep away from ``units``. ``new``: the bytes of all sites, as they were placed."""
    at, unit = site_bytes(portable)
    rows = units[unit]
    context.registry.claim_bytes(at[rows], new[rows])
    for low, high, owner in zip(*(column.tolist() for column in pinned(portable)), strict=True):
        if units[owner]:
            context.registry.pin(low, high)


def unclaim(context: PatchContext, portable: Portable, units: Array) -> None:
    """The opposite of ``claim``."""
    at, unit = site_bytes(portable)
    context.registry.release_bytes(at[units[unit]])
    for low, high, owner in zip(*(column.tolist() for column in pinned(portable)), strict=True):
        if units[owner]:
            context.registry.unpin(low, high)
