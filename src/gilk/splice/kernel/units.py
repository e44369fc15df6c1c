# SPDX-License-Identifier: LGPL-2.1-or-later
"""From a plan to the units that the driver applies, tactic by tactic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gilk.arch.asm import INT3
from gilk.splice.kernel_unit import Read, Unit, UnitKind, Windows
from gilk.splice.plan import FunctionPlan, Patch
from gilk.splice.tactics.table import TACTICS

#: Units that others depend on come first: a pad may lie in the window of another unit, and a short jump leads to a pad.
_ORDER: Final = {
    UnitKind.FENTRY: 0,
    UnitKind.SINGLE: 1,
    UnitKind.MULTI: 1,
    UnitKind.TRAP: 1,
    UnitKind.PAD: 2,
    UnitKind.SHORT: 3,
}


def units(plan: FunctionPlan, read: Read) -> tuple[Unit, ...]:
    """All of a function, those that others depend on first. They are to be applied, and undone, together.

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
    """Everything that goes into arenas, joined where patches are neighbours; what is between them traps."""
    joined: list[tuple[int, bytearray]] = []
    for patch in sorted(patch for plan in plans for patch in plan.patches):
        gap = patch.address - joined[-1][0] - len(joined[-1][1]) if joined else -1
        if 0 <= gap < 16:
            joined[-1][1].extend(INT3 * gap + patch.data)
        else:
            joined.append((patch.address, bytearray(patch.data)))
    return [Patch(address, bytes(data)) for address, data in joined]


__all__ = ["Unit", "UnitKind", "fills", "units"]
