# SPDX-License-Identifier: LGPL-2.1-or-later
"""Plans of functions as a few arrays, so that a handful of array operations applies thousands of plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from gilk.splice.plan import FunctionPlan
from gilk.values import dataclass

Int = NDArray[np.int64]
Byte = NDArray[np.uint8]


def _none() -> Int:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class Batch:
    """Plans of several functions, called units; the ``*_unit`` arrays say which of ``names`` a row belongs to.
    ``at``/``old``/``new``: bytes of code. ``patch``/``original``/``before``: equivalent places (splice/plan.py).
    ``displaced``: addresses where no thread may stand. ``low``/``high``: the extents of patches. ``restorers``: the
    signal restorers that lead handlers back by native/runtime/signal.c, if their unit is in force."""

    names: tuple[str, ...]
    at: Int
    old: Byte
    new: Byte
    at_unit: Int
    patch: Int
    original: Int
    before: NDArray[np.bool_]
    patch_unit: Int
    displaced: Int
    displaced_unit: Int
    low: Int
    high: Int
    low_unit: Int
    restorers: Int = field(default_factory=_none)
    restorers_unit: Int = field(default_factory=_none)

    def only(self, units: set[int]) -> Batch:
        """The rows of these units."""
        if len(units) == len(self.names):
            return self
        chosen = np.zeros(len(self.names), np.bool_)
        chosen[list(units)] = True
        a, p, d, r = (chosen[u] for u in (self.at_unit, self.patch_unit, self.displaced_unit, self.low_unit))
        s = chosen[self.restorers_unit]
        return replace(
            self, at=self.at[a], old=self.old[a], new=self.new[a], at_unit=self.at_unit[a],
            patch=self.patch[p], original=self.original[p], before=self.before[p], patch_unit=self.patch_unit[p],
            displaced=self.displaced[d], displaced_unit=self.displaced_unit[d],
            low=self.low[r], high=self.high[r], low_unit=self.low_unit[r],
            restorers=self.restorers[s], restorers_unit=self.restorers_unit[s],
        )  # fmt: skip


def pack(plans: tuple[FunctionPlan, ...], restorers: Mapping[int, int] = MappingProxyType({})) -> Batch:
    """One batch of all plans, in their order. ``restorers``: by the keys of wants, restorers that lead handlers back if
    the want is carried out."""
    at: list[Int] = []
    old, new = bytearray(), bytearray()
    at_unit: list[Int] = []
    equivalent: list[tuple[int, int, bool, int]] = []
    displaced: list[tuple[int, int]] = []
    patches: list[tuple[int, int, int]] = []
    leading: list[tuple[int, int]] = []
    for unit, plan in enumerate(plans):
        for site in plan.sites:
            at.append(np.arange(site.address, site.address + len(site.new), dtype=np.int64))
            at_unit.append(np.full(len(site.new), unit, np.int64))
            old += site.old
            new += site.new
        equivalent += [(e.patch, e.original, e.before, unit) for e in plan.equivalences]
        displaced += [(address, unit) for address in plan.displaced]
        leading += [(restorers[key], unit) for key in restorers.keys() & plan.patched.keys()]
        patches += [(p.address, p.address + len(p.data), unit) for p in plan.patches]
    e = np.array(equivalent, np.int64).reshape(-1, 4)
    d = np.array(displaced, np.int64).reshape(-1, 2)
    r = np.array(patches, np.int64).reshape(-1, 3)
    s = np.array(leading, np.int64).reshape(-1, 2)
    return Batch(
        tuple(plan.name for plan in plans),
        _joined(at), np.frombuffer(bytes(old), np.uint8), np.frombuffer(bytes(new), np.uint8), _joined(at_unit),
        e[:, 0], e[:, 1], e[:, 2].astype(np.bool_), e[:, 3],
        d[:, 0], d[:, 1], r[:, 0], r[:, 1], r[:, 2], s[:, 0], s[:, 1],
    )  # fmt: skip


def _joined(parts: list[Int]) -> Int:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
