# SPDX-License-Identifier: LGPL-2.1-or-later
"""The text of what an action has printed, where that takes more than its values: a format, or a type."""

from __future__ import annotations

from gilk.render.d import printf, typed
from gilk.trace.d.events import Printed
from gilk.trace.d.values import Memory


def text_of(printed: Printed, printsize: int, strsize: int) -> bytes | None:
    """``printsize``, ``strsize``: the options, in bytes. None where the values alone are what was printed."""
    if printed.format is not None:
        return printf.formatted(printed)
    match printed.values:
        case (Memory() as memory,):
            return typed.printed(memory.address, memory.type, memory.data, printsize, strsize)
    return None
