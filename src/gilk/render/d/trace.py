# SPDX-License-Identifier: LGPL-2.1-or-later
"""The output of trace(), tracemem(), stack(), ustack(), sym() and others: how a datum is printed without a format."""

from __future__ import annotations

from gilk.render.d.columns import left
from gilk.render.d.distribution import drawn
from gilk.render.d.hexdump import hexdump
from gilk.render.d.stacks import INDENT, block
from gilk.trace.d.values import Bytes, Distribution, Dump, Floating, Integer, Packet, Stack, Symbol, Text, Value

#: The number of columns of integers by their size, signed and unsigned, with the space before them.
_SIGNED = {1: 4, 2: 6, 4: 11, 8: 20}
_UNSIGNED = {1: 4, 2: 6, 4: 11, 8: 21}


def trace(value: Value, quiet: bool = False, indent: int = INDENT) -> bytes:
    """The text of a value. ``quiet``: integers and strings are not padded to columns."""
    match value:
        case Integer():
            return _integer(value, quiet)
        case Text():
            return value.data if quiet else b"  " + left(value.data, 33)
        case Bytes() | Dump() | Packet():
            return hexdump(value.data)
        case Symbol():
            return b"  " + left(value.text, 50)
        case Stack():
            return block(value.lines, indent)
        case Distribution():
            return drawn(value)
        case Floating():
            return b"%f" % value.value
    return b""


def _integer(value: Integer, quiet: bool) -> bytes:
    digits = b"%d" % value.as_typed
    columns = (_SIGNED if value.signed else _UNSIGNED).get(value.size, 0)
    return digits if quiet else b" " + digits.rjust(columns - 1)
