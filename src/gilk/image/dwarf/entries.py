# SPDX-License-Identifier: LGPL-2.1-or-later
"""Units and their entries (DWARF 5, sections 7.5.1 and 2.3); each entry is read when it is asked for."""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator
from functools import cached_property

from gilk.errors import ImageError
from gilk.image.dwarf.forms import Abbreviation, Forms, Reference, Signature, Value, abbreviations
from gilk.image.dwarf.sections import Sections
from gilk.image.encoding import uleb
from gilk.image.memory import MALFORMED
from gilk.values import dataclass

AT_SIBLING, AT_NAME, AT_ORIGIN, AT_SPECIFICATION = 0x01, 0x03, 0x31, 0x47
AT_STR_OFFSETS_BASE, AT_ADDR_BASE, AT_RNGLISTS_BASE, AT_LOCLISTS_BASE = 0x72, 0x73, 0x74, 0x8C
_BASES = (AT_STR_OFFSETS_BASE, AT_ADDR_BASE, AT_RNGLISTS_BASE, AT_LOCLISTS_BASE)
_TYPE_UNITS, _WITH_ID = (0x02, 0x06), (0x04, 0x05)
_MOST_UNITS = 1 << 20
_LONGEST_CHAIN = 8  # entries that stand for one another


@dataclass(frozen=True, slots=True)
class DebugUnit:
    """A unit: the bytes [start, end) of .debug_info; its first entry is at ``first``. A type unit has a ``signature``,
    and at ``type_at`` the entry of its type.
    """

    start: int
    end: int
    first: int
    version: int
    abbreviations: int
    signature: int | None = None
    type_at: int = 0


@dataclass(frozen=True, slots=True)
class DebugEntry:
    """An entry. ``end`` is the offset of the next one, which is its first child if it has ``children``."""

    file: Entries
    offset: int
    end: int
    tag: int
    children: bool
    attributes: dict[int, Value]

    def number(self, attribute: int) -> int | None:
        found = self.attributes.get(attribute)
        return found if isinstance(found, int) else None

    @property
    def name(self) -> str:
        found = self.attributes.get(AT_NAME)
        return found if isinstance(found, str) else ""

    def referred(self, attribute: int) -> DebugEntry | None:
        """The entry that an attribute refers to; None if it refers to none. Raises ImageError."""
        match self.attributes.get(attribute):
            case Reference(offset=offset, shared=shared):
                file = self.file.shared if shared else self.file
                return file.entry(offset) if file is not None else None
            case Signature(value=value):
                return self.file.type_unit(value)
        return None

    def chain(self) -> Iterator[DebugEntry]:
        """The entry, and those that it stands for. Raises ImageError."""
        at: DebugEntry | None = self
        for _ in range(_LONGEST_CHAIN):
            if at is None:
                return
            yield at
            at = at.referred(AT_ORIGIN) or at.referred(AT_SPECIFICATION)


class Entries:
    def __init__(self, sections: Sections) -> None:
        self.sections = sections
        self._tables: dict[int, dict[int, Abbreviation]] = {}
        self._forms: dict[int, Forms] = {}

    @cached_property
    def shared(self) -> Entries | None:
        return Entries(self.sections.shared) if self.sections.shared is not None else None

    @cached_property
    def units(self) -> tuple[DebugUnit, ...]:
        """The units, up to the first one that is not understood."""
        found: list[DebugUnit] = []
        at = 0
        while len(found) < _MOST_UNITS and (unit := _unit(self.sections.info, at)) is not None:
            found.append(unit)
            at = unit.end
        return tuple(found)

    @cached_property
    def _starts(self) -> list[int]:
        return [unit.start for unit in self.units]

    def unit(self, offset: int) -> DebugUnit:
        """The unit that contains ``offset``. Raises ImageError."""
        number = bisect.bisect_right(self._starts, offset) - 1
        if number < 0 or offset >= self.units[number].end:
            raise self._malformed(offset)
        return self.units[number]

    def _malformed(self, offset: int) -> ImageError:
        return ImageError("elf-malformed", f"{self.sections.path}: no entry at {offset:#x} of .debug_info")

    def entry(self, offset: int) -> DebugEntry:
        """The entry at ``offset`` of .debug_info. Raises ImageError."""
        found = self._read(self.unit(offset), offset)
        if found is None:
            raise self._malformed(offset)
        return found

    def type_unit(self, signature: int) -> DebugEntry | None:
        for unit in self.units:
            if unit.signature == signature:
                return self.entry(unit.type_at)
        return None

    def top(self, unit: DebugUnit) -> Iterator[DebugEntry]:
        """The entries of a unit that lie in no other entry but the unit's own. Raises ImageError."""
        root = self.entry(unit.first)
        yield from self.children(root)

    def children(self, parent: DebugEntry) -> Iterator[DebugEntry]:
        """The children of an entry, in order. Raises ImageError."""
        if not parent.children:
            return
        unit, at = self.unit(parent.offset), parent.end
        while at < unit.end and (entry := self._read(unit, at)) is not None:
            yield entry
            at = self._after(unit, entry)

    def walk(self, unit: DebugUnit) -> Iterator[tuple[int, DebugEntry]]:
        """All entries of a unit in order, each with its depth: 0 for the unit's own entry. Raises ImageError."""
        at, depth = unit.first, 0
        while at < unit.end:
            entry = self._read(unit, at)
            if entry is None:  # the end of a list of children; behind the last there may be padding
                at, depth = at + 1, max(depth - 1, 0)
                continue
            yield depth, entry
            at, depth = entry.end, depth + int(entry.children)

    def _after(self, unit: DebugUnit, entry: DebugEntry) -> int:
        """The offset behind the entry and its children, at which its sibling is."""
        if not entry.children:
            return entry.end
        match entry.attributes.get(AT_SIBLING):
            case Reference(offset=offset) if entry.end <= offset <= unit.end:
                return offset
        at, depth = entry.end, 1
        while depth and at < unit.end:
            inner = self._read(unit, at)
            at = inner.end if inner is not None else at + 1
            depth += -1 if inner is None else int(inner.children)
        return at

    def _read(self, unit: DebugUnit, offset: int) -> DebugEntry | None:
        """The entry at ``offset``; None if a list of children ends there. Raises ImageError."""
        try:
            code, at = uleb(self.sections.info, offset)
            if not code:
                return None
            shape = self._abbreviations(unit)[code]
            forms, attributes = self._of(unit), dict[int, Value]()
            for name, form, implicit in shape.attributes:
                attributes[name], at = forms.value(form, implicit, at)
        except (*MALFORMED, KeyError, RecursionError):
            raise self._malformed(offset) from None
        return DebugEntry(self, offset, at, shape.tag, shape.children, attributes)

    def _abbreviations(self, unit: DebugUnit) -> dict[int, Abbreviation]:
        if unit.abbreviations not in self._tables:
            self._tables[unit.abbreviations] = abbreviations(self.sections.abbrev, unit.abbreviations)
        return self._tables[unit.abbreviations]

    def _of(self, unit: DebugUnit) -> Forms:
        if unit.start not in self._forms:
            self._forms[unit.start] = forms = Forms(self.sections, unit.start)
            root = self.entry(unit.first)
            bases = [root.number(each) for each in _BASES]
            known = (forms.strings_base, forms.addresses_base, forms.lists_base, forms.locations_base)
            forms.strings_base, forms.addresses_base, forms.lists_base, forms.locations_base = (
                default if base is None else base for base, default in zip(bases, known, strict=True)
            )
        return self._forms[unit.start]


def _unit(info: bytes, at: int) -> DebugUnit | None:
    """The unit at ``at``; None at the end, and for a version or size that is not known."""
    try:
        length, version = struct.unpack_from("<IH", info, at)
        if not 0 < length < 0xFFFFFFF0 or at + 4 + length > len(info) or not 2 <= version <= 5:
            return None
        if version < 5:
            (abbrev,) = struct.unpack_from("<I", info, at + 6)
            return DebugUnit(at, at + 4 + length, at + 11, version, abbrev)
        kind, _, abbrev = struct.unpack_from("<BBI", info, at + 6)
        if kind in _TYPE_UNITS:
            signature, offset = struct.unpack_from("<QI", info, at + 12)
            return DebugUnit(at, at + 4 + length, at + 24, version, abbrev, signature, at + offset)
        return DebugUnit(at, at + 4 + length, at + (20 if kind in _WITH_ID else 12), version, abbrev)
    except struct.error:
        return None
