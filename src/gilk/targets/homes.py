# SPDX-License-Identifier: LGPL-2.1-or-later
"""The homes of changed code: a library may be closed, and something else mapped in its place.

The *home* of an address identifies its mapping: device and inode, the address that offset 0 of the file would have,
path. Bytes in other mappings are not gilk's, even if they look like it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gilk.targets.batch import Int
from gilk.targets.maps import Mapping

Home = tuple[int, int, int, str]


def homes(maps: tuple[Mapping, ...], at: Int) -> frozenset[Home]:
    """The homes of the ascending addresses ``at``."""
    return frozenset(_home(m) for m, low, high in _parts(maps, at) if low < high)


def in_homes(maps: tuple[Mapping, ...], at: Int, known: frozenset[Home]) -> NDArray[np.bool_]:
    """For each of the ascending addresses ``at``, whether it lies in a mapping whose home is ``known``."""
    inside = np.zeros(len(at), np.bool_)
    for mapping, low, high in _parts(maps, at):
        if low < high and _home(mapping) in known:
            inside[low:high] = True
    return inside


def shared_at(maps: tuple[Mapping, ...], at: Int) -> Mapping | None:
    """A shared mapping, which writes to its file, in which one of the ascending addresses ``at`` lies; None if there is
    none."""
    return next((m for m, low, high in _parts(maps, at) if low < high and m.permissions.endswith("s")), None)


def without_file(maps: tuple[Mapping, ...], at: Int) -> list[tuple[Mapping, int, int]]:
    """The anonymous executable mappings in which some of the ascending addresses ``at`` lie, each with the first and
    the end row of those."""
    return [(m, low, high) for m, low, high in _parts(maps, at) if low < high and not m.inode and not m.path]


def _home(mapping: Mapping) -> Home:
    return mapping.device, mapping.inode, mapping.start - mapping.offset, mapping.path


def _parts(maps: tuple[Mapping, ...], at: Int) -> list[tuple[Mapping, int, int]]:
    """The executable mappings, each with the first and the end row of ``at`` that lie in it."""
    code = [m for m in maps if m.executable and m.end < 1 << 63]  # not [vsyscall]
    lows = np.searchsorted(at, np.array([m.start for m in code], np.int64))
    highs = np.searchsorted(at, np.array([m.end for m in code], np.int64))
    return list(zip(code, lows.tolist(), highs.tolist(), strict=True))
