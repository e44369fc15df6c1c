# SPDX-License-Identifier: LGPL-2.1-or-later
"""Find expressions that do something besides having a value; the moment of evaluation matters for these only."""

from __future__ import annotations

from gilk.lang import ir
from gilk.lang.operations import OPERATIONS
from gilk.lang.walk import operands


def has(value: ir.Node) -> bool:
    """Whether the evaluation of ``value`` changes something that other code can see."""
    match value:
        case ir.Assign() | ir.Step():
            return True
        case ir.Call(name=name) if OPERATIONS[name].changes:
            return True
    return any(map(has, operands(value)))
