# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds entries by name without an index: a unit is read if it contains the bytes of the name, or a reference
to them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gilk.image.dwarf.entries import DebugEntry, DebugUnit, Entries
from gilk.image.dwarf.sections import Sections

_MOST_STRINGS = 1024  # the most strings that end in the wanted name; if there are more, all units are looked at


def find(entries: Entries, name: str, tags: frozenset[int]) -> Iterator[DebugEntry]:
    """The entries of that name, with one of ``tags``, that lie in no other entry; declarations, too. Raises
    ImageError.
    """
    for file in (entries, entries.shared):
        if file is None:
            continue
        for unit in units_with(file, entries.sections, name.encode("utf-8", "surrogateescape")):
            for entry in file.top(unit):
                if entry.tag in tags and entry.name == name:
                    yield entry


def units_with(file: Entries, sections: Sections, name: bytes) -> Iterator[DebugUnit]:
    """The units in which the name may occur."""
    own = file.sections
    needles = [name + b"\0"]
    tables = [own.strings, own.line_strings] + ([sections.shared.strings] if sections.shared is not None else [])
    for table in tables:
        found = list(_offsets(table, name + b"\0", _MOST_STRINGS))
        if len(found) == _MOST_STRINGS:
            yield from file.units
            return
        needles += [struct.pack("<I", offset) for offset in found]
    if own.string_offsets and len(needles) > 1:  # then each unit has its own numbers for names
        yield from file.units
        return
    seen: set[int] = set()
    for needle in needles:
        yield from containing(file, needle, seen)


def _offsets(data: bytes, needle: bytes, most: int) -> Iterator[int]:
    at = data.find(needle)
    while at >= 0 and most:
        yield at
        at, most = data.find(needle, at + 1), most - 1


def containing(file: Entries, needle: bytes, seen: set[int]) -> Iterator[DebugUnit]:
    """The units that contain the bytes ``needle``, each once; they are added to ``seen``."""
    info = file.sections.info
    at = info.find(needle)
    while at >= 0 and file.units and at < file.units[-1].end:
        unit = file.unit(at)
        if unit.start not in seen:
            seen.add(unit.start)
            yield unit
        at = info.find(needle, unit.end)
