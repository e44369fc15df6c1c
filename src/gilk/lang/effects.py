# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which expressions do something besides having a value: only for them it matters when they are evaluated."""

from __future__ import annotations

from gilk.lang import ir
from gilk.lang.operations import OPERATIONS
from gilk.lang.walk import operands


def has(value: ir.Node) -> bool:
    """Whether evaluating it changes what others see."""
    match value:
        case ir.Assign() | ir.Step():
            return True
        case ir.Call(name=name) if OPERATIONS[name].changes:
            return True
    return any(map(has, operands(value)))
