# SPDX-License-Identifier: LGPL-2.1-or-later
"""The text of an action's output, if that takes more than its values: a format, or a type."""

from __future__ import annotations

from gilk.render.d import printf, typed
from gilk.trace.d.events import Printed
from gilk.trace.d.values import Memory


def text_of(printed: Printed, printsize: int, strsize: int) -> bytes | None:
    """The text; None if the output is just the values. ``printsize`` and ``strsize`` are the options, in bytes."""
    if printed.format is not None:
        return printf.formatted(printed)
    match printed.values:
        case (Memory() as memory,):
            return typed.printed(memory.address, memory.type, memory.data, printsize, strsize)
    return None
