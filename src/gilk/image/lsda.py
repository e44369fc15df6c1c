# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads the landing pads of a function, where the unwinder enters it, from its LSDA in .gcc_except_table.

The layout is that of GCC's ``read_encoded_value`` users (the Itanium C++ ABI, "Exception Handling Tables"): landing-pad
base, type table, then call sites of (start, length, landing pad, action).
"""

from __future__ import annotations

from gilk.errors import ImageError
from gilk.image.encoding import FUNCREL, OMIT, EncodedTable, reader, uleb
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class CallSites:
    """The call-site table of an LSDA: the bytes [start, end) of ``data``; landing pads are relative to ``base``."""

    data: bytes
    start: int
    end: int
    encoding: int
    base: int


def call_sites(table: EncodedTable, offset: int, function: int) -> CallSites:
    """The call sites of the LSDA at ``offset`` of ``table``.

    ``function`` is the start of the FDE, to which landing pads are relative unless the LSDA says otherwise. Raises one
    of MALFORMED if the table is broken.
    """
    data = table.data
    base, cursor = function, offset + 1
    if data[offset] != OMIT:
        base, cursor = table.pointer(cursor, data[offset], {FUNCREL: function})
    if data[cursor] == OMIT:
        cursor += 1
    else:
        _, cursor = uleb(data, cursor + 1)
    encoding = data[cursor]
    size, cursor = uleb(data, cursor + 1)
    if cursor + size > len(data):
        raise ImageError("elf-malformed", f"a table of call sites has {size:#x} bytes, more than there are")
    return CallSites(data, cursor, cursor + size, encoding, base)


def landing_pads(sites: CallSites) -> tuple[int, ...]:
    """The addresses at which exceptions land, sorted. Raises one of MALFORMED if the table is broken."""
    read, data, cursor, base = reader(sites.encoding), sites.data, sites.start, sites.base
    pads = set()
    while cursor < sites.end:
        _, cursor = read(data, cursor)
        _, cursor = read(data, cursor)
        pad, cursor = read(data, cursor)
        _, cursor = uleb(data, cursor)
        if pad:
            pads.add(base + pad)
    return tuple(sorted(pads))
