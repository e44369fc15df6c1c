# SPDX-License-Identifier: LGPL-2.1-or-later
"""A pass that sets the options that programs' pragmas name."""

from __future__ import annotations

from gilk.lang.d import items
from gilk.lang.d.options import BadOption, Options
from gilk.lang.d.passes.state import Invocation
from gilk.lang.d.passes.values import Units
from gilk.lang.syntax.source import Rejected


def run(units: Units, state: Invocation) -> Units:
    """Set the options. Raises DoesNotCompile."""
    for unit in units.programs:
        with unit.blamed():
            for item in unit.program.items:
                if isinstance(item, items.Pragma) and item.kind == "option":
                    _set(state.options, item)
    return units


def _set(options: Options, pragma: items.Pragma) -> None:
    name, value = (*pragma.words, None)[:2]
    try:
        options.set(str(name), value, program=True)
    except BadOption as bad:
        what = f"failed to set option '{name}'" + (f" to '{value}'" if value else "")
        raise Rejected("D_PRAGMA_OPTSET", pragma.span, f"{what}: {bad}") from None
