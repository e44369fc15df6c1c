# SPDX-License-Identifier: LGPL-2.1-or-later
"""Turns a plan into the units that the driver applies; each tactic makes its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gilk.arch.asm import INT3
from gilk.splice.kernel_unit import Read, Unit, UnitKind, Windows
from gilk.splice.plan import FunctionPlan, Patch
from gilk.splice.tactics.table import TACTICS

#: Units come before those that depend on them: a pad may lie in another unit's window, a short jump leads to a pad.
_ORDER: Final = {
    UnitKind.FENTRY: 0,
    UnitKind.SINGLE: 1,
    UnitKind.MULTI: 1,
    UnitKind.TRAP: 1,
    UnitKind.PAD: 2,
    UnitKind.SHORT: 3,
}


def units(plan: FunctionPlan, read: Read) -> tuple[Unit, ...]:
    """All units of a function, each before those that depend on it. They are to be applied, and undone, together.

    ``read(address, size)`` gives the code as it is without any plan.
    """
    windows = Windows(plan, read)
    made: list[Unit] = []
    for splice in sorted(plan.splices, key=lambda splice: splice.bounce is not None):
        some = list(TACTICS[splice.tactic].units(splice, windows))
        if splice.bounce is None:
            windows.hosts.update((unit.address, unit) for unit in some)
        made += some
    return tuple(sorted(made, key=lambda unit: (_ORDER[unit.kind], unit.address)))


def fills(plans: Iterable[FunctionPlan]) -> list[Patch]:
    """The bytes to write into arenas: the patches of all plans, joined if less than 16 bytes lie between them; those
    are int3.
    """
    joined: list[tuple[int, bytearray]] = []
    for patch in sorted(patch for plan in plans for patch in plan.patches):
        gap = patch.address - joined[-1][0] - len(joined[-1][1]) if joined else -1
        if 0 <= gap < 16:
            joined[-1][1].extend(INT3 * gap + patch.data)
        else:
            joined.append((patch.address, bytearray(patch.data)))
    return [Patch(address, bytes(data)) for address, data in joined]


__all__ = ["Unit", "UnitKind", "fills", "units"]
