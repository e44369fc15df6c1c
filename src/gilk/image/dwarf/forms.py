# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads attributes (DWARF 5, sections 7.5.3 to 7.5.6): abbreviations, and the forms of values."""

from __future__ import annotations

import struct
from typing import NamedTuple

from gilk.errors import ImageError
from gilk.image.dwarf.sections import Sections
from gilk.image.encoding import sleb, uleb
from gilk.values import dataclass

_IMPLICIT, _INDIRECT = 0x21, 0x16
_FIXED = {
    0x01: 8, 0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, 0x0E: 4, 0x10: 4, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8,
    0x17: 4, 0x19: 0, 0x1C: 4, 0x1D: 4, 0x1E: 16, 0x1F: 4, 0x20: 8, 0x24: 8, 0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4,
    0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4, 0x1F20: 4, 0x1F21: 4,
}  # fmt: skip
_ULEB = {0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23, 0x1F01, 0x1F02}
_BLOCKS = {0x03: 2, 0x04: 4, 0x0A: 1}
_IN_UNIT = {0x11, 0x12, 0x13, 0x14, 0x15}
_INDEXED = {0x1A, 0x25, 0x26, 0x27, 0x28, 0x1F02}
_ADDRESSES = {0x1B, 0x29, 0x2A, 0x2B, 0x2C, 0x1F01}
_ADDRESS, _LOCATION_LIST, _RANGE_LIST = 0x01, 0x22, 0x23
_LONGEST_NAME = 4096
_MOST_ATTRIBUTES = 100  # of an entry: compilers write a dozen


class Reference(NamedTuple):
    """A reference to the entry at ``offset`` of .debug_info; ``shared``: in the file that several programs share."""

    offset: int
    shared: bool = False


class CodeAddress(int):
    """A link-time address, as distinct from a number that is a length or an offset."""


class Signature(NamedTuple):
    """The signature of a type that has a unit of its own."""

    value: int


#: The value of an attribute. A flag that is present is 1; a block of bytes is bytes.
Value = int | str | bytes | Reference | Signature


@dataclass(frozen=True, slots=True)
class Abbreviation:
    """The shape of entries. ``attributes`` are (name, form, value); the value counts only if the form is implicit."""

    tag: int
    children: bool
    attributes: tuple[tuple[int, int, int], ...]


def abbreviations(data: bytes, offset: int) -> dict[int, Abbreviation]:
    """The table of abbreviations at ``offset``, by code. Raises IndexError, ImageError."""
    found: dict[int, Abbreviation] = {}
    while True:
        code, offset = uleb(data, offset)
        if not code:
            return found
        tag, offset = uleb(data, offset)
        children = bool(data[offset])
        attributes, offset = _attributes(data, offset + 1)
        found[code] = Abbreviation(tag, children, attributes)


def _attributes(data: bytes, offset: int) -> tuple[tuple[tuple[int, int, int], ...], int]:
    found: list[tuple[int, int, int]] = []
    while True:
        name, offset = uleb(data, offset)
        form, offset = uleb(data, offset)
        implicit = 0
        if form == _IMPLICIT:
            implicit, offset = sleb(data, offset)
        if not name and not form:
            return tuple(found), offset
        if len(found) == _MOST_ATTRIBUTES:
            raise ImageError("elf-malformed", f"entries of debug information have over {_MOST_ATTRIBUTES} attributes")
        found.append((name, form, implicit))


class Forms:
    """Reads values of one unit, which begins at ``unit``. ``strings_base`` is the start of its part of the string
    offsets, ``addresses_base`` that of its addresses, ``lists_base`` that of the offsets of its range lists, and
    ``locations_base`` that of the offsets of its location lists.
    """

    def __init__(self, sections: Sections, unit: int, strings_base: int = 8) -> None:
        self._sections = sections
        self._info = sections.info
        self._unit = unit
        self.strings_base = strings_base
        self.addresses_base, self.lists_base, self.locations_base = 8, 12, 12

    def value(self, form: int, implicit: int, at: int) -> tuple[Value, int]:
        """The value at ``at``, and the offset behind it. Raises IndexError, ImageError, struct.error."""
        if form in _FIXED:
            size = _FIXED[form]
            number = int.from_bytes(self._info[at : at + size], "little") if size else 1
            return self._meaning(form, number), at + size
        if form in _ULEB:
            number, end = uleb(self._info, at)
            return self._meaning(form, number), end
        if form == 0x08:
            end = self._info.index(b"\0", at)
            return self._info[at:end].decode("utf-8", "replace"), end + 1
        if form == 0x0D:
            return sleb(self._info, at)
        if form == _IMPLICIT:
            return implicit, at
        if form == _INDIRECT:
            real, at = uleb(self._info, at)
            if real == _INDIRECT:
                raise ImageError("elf-malformed", f"{self._sections.path}: DW_FORM_indirect refers to DW_FORM_indirect")
            return self.value(real, implicit, at)
        return self._block(form, at)

    def _block(self, form: int, at: int) -> tuple[Value, int]:
        if form in _BLOCKS:
            start = at + _BLOCKS[form]
            size = int.from_bytes(self._info[at:start], "little")
        elif form in (0x09, 0x18):
            size, start = uleb(self._info, at)
        else:
            raise ImageError("elf-malformed", f"{self._sections.path}: DWARF has no form {form:#x}")
        return self._info[start : start + size], start + size

    def _meaning(self, form: int, number: int) -> Value:
        if form in _IN_UNIT:
            return Reference(self._unit + number)
        if form == 0x10:
            return Reference(number)
        if form in (0x1C, 0x24, 0x1F20):
            return Reference(number, True)
        if form == 0x20:
            return Signature(number)
        if form == 0x0E:
            return _string(self._sections.strings, number)
        if form == 0x1F:
            return _string(self._sections.line_strings, number)
        if form in (0x1D, 0x1F21):
            shared = self._sections.shared
            return _string(shared.strings, number) if shared is not None else ""
        if form in _INDEXED:
            (offset,) = struct.unpack_from("<I", self._sections.string_offsets, self.strings_base + 4 * number)
            return _string(self._sections.strings, offset)
        if form in _ADDRESSES:
            there = _number(self._sections.addresses, self.addresses_base + 8 * number, 8)
            return CodeAddress(there) if isinstance(there, int) else there
        if form == _RANGE_LIST:
            found = _number(self._sections.range_lists, self.lists_base + 4 * number, 4)
            return self.lists_base + found if isinstance(found, int) else found
        if form == _LOCATION_LIST:
            found = _number(self._sections.location_lists, self.locations_base + 4 * number, 4)
            return self.locations_base + found if isinstance(found, int) else found
        return CodeAddress(number) if form == _ADDRESS else number


def _number(table: bytes, at: int, size: int) -> int | bytes:
    """The number of ``size`` bytes at ``at``; b'' if the table is missing or too short, such as when it is in a file of
    its own.
    """
    found = table[at : at + size]
    return int.from_bytes(found, "little") if len(found) == size else b""


def _string(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset, offset + _LONGEST_NAME)
    return table[offset : end if end >= 0 else offset].decode("utf-8", "replace")
