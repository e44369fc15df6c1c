# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds the places where a function has been inlined (DWARF 5, section 3.3.8), by its name, without an index.

An inlined copy refers to the function's entry by offset, so only those units are read that contain the name or that
offset.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import astuple, replace
from typing import Any

from gilk.image.demangle import is_mangled
from gilk.image.dwarf.arguments import arguments
from gilk.image.dwarf.entries import AT_ORIGIN, DebugEntry, DebugUnit, Entries
from gilk.image.dwarf.forms import CodeAddress, Reference
from gilk.image.dwarf.kept import as_json, from_json, in_range, kept, text
from gilk.image.dwarf.names import containing, units_with
from gilk.image.dwarf.ranges import LOW_PC, RANGES, Range, ranges
from gilk.image.lookup import goes_by, written_name
from gilk.image.value_place import CFA, ArgumentPlace, ValuePlace
from gilk.values import dataclass

_TAG_FUNCTION, _TAG_INLINED = 0x2E, 0x1D
_ENTRY_PC, _DECLARED_LINE = 0x52, 0x3B
_ENTRY_VIEW = 0x2138  # DW_AT_GNU_entry_view
_LINKAGE_NAME = 0x6E
_MOST_ENTRIES = 400_000  # the most entries read for one name; that takes seconds
_MOST_MEANT = 256  # the most entries of one name; each is searched for in all of .debug_info
_HIGHEST = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class InlinedCopy:
    """An inlined copy of a function. ``within``: the name of the function whose code it is a part of. ``ranges``: its
    code, by link-time addresses. ``entry``: the address at which a call of it begins, None if the compiler does not
    tell. ``line``: the line in which the function is declared, 0 if it is not known. ``inner``: the copy lies in
    another copy of the same function, or in the function itself: a recursion, or a part that the compiler had made a
    function of its own. ``view``: the index, among the rows of the line table for ``entry``, of the row at which the
    copy begins; None if it is not known. ``arguments``: those of the call, if they were asked for, with their places at
    ``address``. ``depth``: how many functions and copies it lies in.
    """

    within: str
    ranges: tuple[Range, ...] = ()
    entry: int | None = None
    line: int = 0
    inner: bool = False
    view: int | None = None
    arguments: tuple[ArgumentPlace, ...] = ()
    depth: int = 0

    @property
    def address(self) -> int | None:
        """The address by which the copy is named; None if it is written in a way that is not known."""
        return self.entry if self.entry is not None else self.ranges[0][0] if self.ranges else None


@dataclass(frozen=True, slots=True)
class Copies:
    """The inlined copies of a function. ``complete`` is False if more had to be read than is ever read for one name.
    ``whole``: the addresses of the functions that were made of it, under whatever names, and their arguments.
    """

    found: tuple[InlinedCopy, ...]
    complete: bool
    whole: tuple[tuple[int, tuple[ArgumentPlace, ...]], ...] = ()

    @property
    def starts(self) -> set[int]:
        return {start for start, _ in self.whole}


def copies(entries: Entries, name: str, with_arguments: bool = False) -> Copies:
    """The inlined copies of the functions whose name in the source, qualified as in ``ns::f`` or not, or whose symbol
    is ``name``. They are kept in the cache. Raises ImageError.
    """

    def make() -> Copies:
        return _read(entries, name, with_arguments)

    return kept(("copies", name, with_arguments), entries.sections.of_entries, make, _to_bytes, _from_bytes)


def _to_bytes(found: Copies) -> bytes:
    return as_json(
        [[*map(_copy_words, found.found)], found.complete, [[at, _words(given)] for at, given in found.whole]]
    )


def _copy_words(copy: InlinedCopy) -> list[Any]:
    return [copy.within, copy.ranges, copy.entry, copy.line, copy.inner, copy.view, _words(copy.arguments), copy.depth]


def _words(arguments: Iterable[ArgumentPlace]) -> list[Any]:
    return [[each.number, each.name, each.place and astuple(each.place), each.why] for each in arguments]


def _from_bytes(content: bytes) -> Copies:
    """Raises ValueError and its like."""
    found, complete, whole = from_json(content)
    functions = tuple((in_range(at, 0, _HIGHEST), _arguments(given)) for at, given in whole)
    return Copies(tuple(map(_copy, found)), bool(complete), functions)


def _copy(row: Any) -> InlinedCopy:
    within, pieces, entry, line, inner, view, given, depth = row
    code = tuple((in_range(low, 0, _HIGHEST), in_range(high, 0, _HIGHEST)) for low, high in pieces)
    first, seen = _perhaps(entry), _perhaps(view)
    at = in_range(line, 0, _HIGHEST)
    return InlinedCopy(
        text(within), code, first, at, bool(inner), seen, _arguments(given), in_range(depth, 0, _HIGHEST)
    )


def _perhaps(value: Any) -> int | None:
    return None if value is None else in_range(value, 0, _HIGHEST)


def _arguments(rows: Any) -> tuple[ArgumentPlace, ...]:
    return tuple(
        ArgumentPlace(None if n is None else in_range(n, 0, 5), text(name), _value_place(place), text(why))
        for n, name, place, why in rows
    )


def _value_place(row: Any) -> ValuePlace | None:
    if row is None:
        return None
    base, offset, loaded, width, of_image = row
    if width not in (1, 2, 4, 8):
        raise ValueError(width)
    register = None if base is None else in_range(base, 0, CFA)
    return ValuePlace(register, in_range(offset, -_HIGHEST, _HIGHEST), bool(loaded), width, bool(of_image))


def _read(entries: Entries, name: str, with_arguments: bool) -> Copies:
    reader = _Reader(entries, name, with_arguments)
    for unit in units_with(entries, entries.sections, written_name(name).encode("utf-8", "surrogateescape")):
        reader.read(unit)
    followed: set[int] = set()
    while fresh := sorted(reader.meant - followed):  # entries that link-time optimization adds refer to earlier ones
        followed.update(fresh)
        for offset in fresh[: _MOST_MEANT - len(followed) + len(fresh)]:
            for unit in containing(entries, struct.pack("<I", offset), set(reader.seen)):
                reader.read(unit)
    complete = reader.budget > 0 and len(followed) <= _MOST_MEANT
    return Copies(tuple(reader.found()), complete, tuple(sorted(reader.whole.items())))


class _Reader:
    def __init__(self, entries: Entries, name: str, with_arguments: bool) -> None:
        self._entries, self._name, self._with_arguments = entries, name, with_arguments
        self.meant: set[int] = set()  # the offsets of the function's own entries
        self.seen: set[int] = set()  # the starts of the units that were read
        self.whole: dict[int, tuple[ArgumentPlace, ...]] = {}  # the addresses of functions, and their arguments
        self.budget = _MOST_ENTRIES
        # The function's offset, the copy, the function that contains it, the offsets of all functions around, the unit.
        self._inlined: list[tuple[int, DebugEntry, DebugEntry | None, tuple[int, ...], DebugUnit]] = []

    def read(self, unit: DebugUnit) -> None:
        if unit.start in self.seen or self.budget <= 0:
            return
        self.seen.add(unit.start)
        # The functions and copies that contain the entry: the depth of each, its entry, and its function's offset.
        around: list[tuple[int, DebugEntry, int]] = []
        for depth, entry in self._entries.walk(unit):
            self.budget -= 1
            if self.budget <= 0:
                return
            while around and around[-1][0] >= depth:
                around.pop()
            if entry.tag == _TAG_FUNCTION:
                around.append((depth, entry, entry.offset))
                if self._is_meant(set(names(entry))):
                    self.meant.add(entry.offset)
                    for low, _ in self._ranges(entry, unit)[:1]:
                        self.whole[low] = self._arguments(entry, unit, entry, low, None)
            elif entry.tag == _TAG_INLINED and (LOW_PC in entry.attributes or RANGES in entry.attributes):
                origin = entry.attributes.get(AT_ORIGIN)
                if isinstance(origin, Reference) and not origin.shared:
                    within = next((each for _, each, _ in reversed(around) if each.tag == _TAG_FUNCTION), None)
                    self._inlined.append((origin.offset, entry, within, tuple(each for _, _, each in around), unit))
                    around.append((depth, entry, origin.offset))

    def _ranges(self, entry: DebugEntry, unit: DebugUnit) -> tuple[Range, ...]:
        return ranges(entry, self._entries.entry(unit.first), unit.version)

    def _is_meant(self, called: set[str]) -> bool:
        """Whether an entry with the names ``called`` is meant. Entries of static functions have no linker's name, and
        so do not tell their namespace.
        """
        if self._name in called or "::" not in self._name:
            return self._name in called
        linked = [name for name in called if is_mangled(name)]
        return any(goes_by(name, self._name) for name in linked) if linked else written_name(self._name) in called

    def found(self) -> Iterator[InlinedCopy]:
        for offset, entry, home, around, unit in self._inlined:
            if offset in self.meant:
                within = next(iter(names(home)), "") if home is not None else ""
                code, inner = self._ranges(entry, unit), not self.meant.isdisjoint(around)
                line, view = self._line(offset), entry.number(_ENTRY_VIEW)
                found = InlinedCopy(within, code, _entry(entry, code), line, inner, view, depth=len(around))
                if home is not None and found.address is not None:
                    found = replace(found, arguments=self._arguments(entry, unit, home, found.address, view))
                yield found

    def _arguments(
        self, call: DebugEntry, unit: DebugUnit, home: DebugEntry, at: int, view: int | None
    ) -> tuple[ArgumentPlace, ...]:
        return arguments(call, unit, home, at, view) if self._with_arguments else ()

    def _line(self, offset: int) -> int:
        chain = self._entries.entry(offset).chain()
        return next((each.number(_DECLARED_LINE) or 0 for each in chain if _DECLARED_LINE in each.attributes), 0)


def _entry(entry: DebugEntry, code: tuple[Range, ...]) -> int | None:
    """DW_AT_entry_pc: an address, or an offset from the first range; None if it is missing. The instruction there may
    be one of the code around the copy, with which the copy's instructions have been mixed.
    """
    first = entry.number(_ENTRY_PC)
    if first is None or isinstance(first, CodeAddress):
        return first
    return first + code[0][0] if code else None


def names(entry: DebugEntry) -> Iterable[str]:
    """The names of an entry, that of the symbol and that in the source: its own, and those of the entries that it
    stands for.
    """
    found: dict[str, None] = {}
    for each in entry.chain():
        linkage = each.attributes.get(_LINKAGE_NAME)
        found |= dict.fromkeys(name for name in (linkage, each.name) if isinstance(name, str) and name)
    return found
