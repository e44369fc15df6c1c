# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where a function has been inlined (DWARF 5, section 3.3.8): looked up by its name, without an index.

An inlined copy refers to the function's entry by offset, so only the units are read through that have the name in them,
or that offset.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from gilk.image.demangle import is_mangled
from gilk.image.dwarf.entries import DebugEntry, DebugUnit, Entries
from gilk.image.dwarf.forms import Reference
from gilk.image.dwarf.names import containing, units_with
from gilk.image.lookup import goes_by, written_name
from gilk.values import dataclass

_TAG_FUNCTION, _TAG_INLINED = 0x2E, 0x1D
_LOW_PC, _ENTRY_PC, _RANGES, _ORIGIN, _SPECIFICATION = 0x11, 0x52, 0x55, 0x31, 0x47
_LINKAGE_NAME = 0x6E
_MOST_ENTRIES = 400_000  # read for one name: seconds
_MOST_MEANT = 256  # entries of one name: each is looked for in all that there is
_DEEPEST = 8  # entries that stand for another


@dataclass(frozen=True, slots=True)
class InlinedCopy:
    """``within``: the name of the function whose code it is a part of. ``address``: link-time, of its first
    instruction; None where that is written in a way that is not known."""

    within: str
    address: int | None


@dataclass(frozen=True, slots=True)
class Copies:
    """``complete``: false where there was more to be read than is ever read for one name."""

    found: tuple[InlinedCopy, ...]
    complete: bool


def copies(entries: Entries, name: str) -> Copies:
    """The inlined copies of the functions called ``name``, also as in ``ns::f``, or whose symbol is. Raises
    ImageError."""
    reader = _Reader(entries, name)
    for unit in units_with(entries, entries.sections, written_name(name).encode("utf-8", "surrogateescape")):
        reader.read(unit)
    followed: set[int] = set()
    while fresh := sorted(reader.meant - followed):  # what link-time optimization adds refers to what there was before
        followed.update(fresh)
        for offset in fresh[: _MOST_MEANT - len(followed) + len(fresh)]:
            for unit in containing(entries, struct.pack("<I", offset), set(reader.seen)):
                reader.read(unit)
    return Copies(tuple(reader.found()), reader.budget > 0 and len(followed) <= _MOST_MEANT)


class _Reader:
    def __init__(self, entries: Entries, name: str) -> None:
        self._entries, self._name = entries, name
        self.meant: set[int] = set()  # offsets of the function's own entries
        self.seen: set[int] = set()  # units, by their start
        self.budget = _MOST_ENTRIES
        self._inlined: list[
            tuple[int, DebugEntry, DebugEntry | None]
        ] = []  # of which function, the copy, what it is in

    def read(self, unit: DebugUnit) -> None:
        if unit.start in self.seen or self.budget <= 0:
            return
        self.seen.add(unit.start)
        around: list[tuple[int, DebugEntry]] = []  # functions that the entry is in, with how deep they are
        for depth, entry in self._entries.walk(unit):
            self.budget -= 1
            if self.budget <= 0:
                return
            while around and around[-1][0] >= depth:
                around.pop()
            if entry.tag == _TAG_FUNCTION:
                around.append((depth, entry))
                if self._is_meant(set(names(entry))):
                    self.meant.add(entry.offset)
            elif entry.tag == _TAG_INLINED and (_LOW_PC in entry.attributes or _RANGES in entry.attributes):
                origin = entry.attributes.get(_ORIGIN)
                if isinstance(origin, Reference) and not origin.shared:
                    self._inlined.append((origin.offset, entry, around[-1][1] if around else None))

    def _is_meant(self, called: set[str]) -> bool:
        """Entries of static functions have no linker's name, and so not the namespace that they are in."""
        if self._name in called or "::" not in self._name:
            return self._name in called
        linked = [name for name in called if is_mangled(name)]
        return any(goes_by(name, self._name) for name in linked) if linked else written_name(self._name) in called

    def found(self) -> Iterator[InlinedCopy]:
        for offset, entry, around in self._inlined:
            if offset in self.meant:
                within = next(iter(names(around)), "") if around is not None else ""
                low, first = entry.number(_LOW_PC), entry.number(_ENTRY_PC)
                yield InlinedCopy(within, low if low is not None else first)


def names(entry: DebugEntry) -> Iterable[str]:
    """The names of an entry, in symbols and in the source: its own, or those of the entry that it stands for."""
    found: dict[str, None] = {}
    at: DebugEntry | None = entry
    for _ in range(_DEEPEST):
        if at is None:
            break
        linkage = at.attributes.get(_LINKAGE_NAME)
        found |= dict.fromkeys(name for name in (linkage, at.name) if isinstance(name, str) and name)
        at = at.referred(_ORIGIN) or at.referred(_SPECIFICATION)
    return found
