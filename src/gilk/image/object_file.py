# SPDX-License-Identifier: LGPL-2.1-or-later
"""A relocatable object file for x86-64 that gets more sections and symbols, before a linker reads it.

Whatever is not changed stays where it is in the file; what is new or longer goes behind it (System V gABI, chapter 4).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

from gilk.errors import ImageError
from gilk.image.header import EHDR, EM_X86_64, SHDR, SHF_EXECINSTR, SHT_RELA, SHT_SYMTAB
from gilk.values import dataclass

SHT_GROUP, SHF_INFO_LINK, SHF_GROUP = 17, 0x40, 0x200
R_NONE, R_64, R_PC32, R_PLT32 = 0, 1, 2, 4
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_IDENT = b"\x7fELF\2\1"  # 64 bits, little-endian
_IDENT_SIZE = 16
_RELOCATABLE = 1  # ET_REL
_WEAK, _GLOBAL, _SECTION = 2, 1, 3  # STB_WEAK, STB_GLOBAL, STT_SECTION


@dataclass(frozen=True)
class ObjectSymbol:
    """``section``: the number of the section that defines the symbol, 0 if none does."""

    name: str
    kind: int
    section: int
    value: int


@dataclass(frozen=True)
class Relocation:
    """``place``: of the relocation in the file, in bytes; ``offset``: in the section that it changes; ``symbol``: a
    number."""

    place: int
    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True)
class _Row:
    """A section header, in the order of its fields (Elf64_Shdr)."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int

    def packed(self) -> bytes:
        fields = (self.name, self.kind, self.flags, self.address, self.offset, self.size)
        return SHDR.pack(*fields, self.link, self.info, self.align, self.entry)


class ObjectFile:
    """Raises ImageError `not-elf` if the content has another form."""

    def __init__(self, content: bytes) -> None:
        try:
            head = EHDR.unpack_from(content)
            if content[:6] != _IDENT or head[0] != _RELOCATABLE or head[1] != EM_X86_64 or not head[11]:
                raise ImageError("not-elf", "it is no object file of a compiler for x86-64, with 64 bits")
            self._head, self._data = head, bytearray(content)
            self._rows = [_Row(*SHDR.unpack_from(content, head[5] + SHDR.size * n)) for n in range(head[11])]
            self._table = next((n for n, row in enumerate(self._rows) if row.kind == SHT_SYMTAB), 0)
            self.symbols = tuple(self._symbols()) if self._table else ()
        except (struct.error, IndexError, ValueError) as error:
            raise ImageError("not-elf", f"its tables are broken: {error}") from None

    def content(self) -> bytes:
        """The file with all that was changed and added."""
        self._data += bytes(-len(self._data) % 8)
        rows = b"".join(row.packed() for row in self._rows)
        head = EHDR.pack(*self._head[:5], len(self._data), *self._head[6:11], len(self._rows), self._head[12])
        return bytes(self._data[:_IDENT_SIZE]) + head[_IDENT_SIZE:] + bytes(self._data[EHDR.size :]) + rows

    def executable(self) -> Iterator[int]:
        """The numbers of sections with code."""
        return (number for number, row in enumerate(self._rows) if row.flags & SHF_EXECINSTR)

    def relocations(self, section: int) -> Iterator[Relocation]:
        """The relocations that change a section. Raises ImageError `not-elf`."""
        for row in self._rows:
            if row.kind != SHT_RELA or row.info != section:
                continue
            for place in range(row.offset, row.offset + row.size, _RELOCATION.size):
                try:
                    offset, what, addend = _RELOCATION.unpack_from(self._data, place)
                except struct.error:
                    raise ImageError("not-elf", "a table of relocations is cut off") from None
                yield Relocation(place, offset, what & 0xFFFFFFFF, what >> 32, addend)

    def disable(self, relocation: Relocation) -> None:
        """Make it a relocation that changes nothing, of the same symbol."""
        row = (relocation.offset, relocation.symbol << 32 | R_NONE, relocation.addend)
        _RELOCATION.pack_into(self._data, relocation.place, *row)

    def read(self, section: int, offset: int, size: int) -> bytes:
        """Bytes of a section; fewer than ``size`` if it ends before."""
        row = self._rows[section]
        return bytes(self._data[row.offset + max(offset, 0) : row.offset + min(offset + size, row.size)])

    def write(self, section: int, offset: int, content: bytes) -> None:
        at = self._rows[section].offset + offset
        self._data[at : at + len(content)] = content

    def name_near(self, section: int, offset: int) -> tuple[int, int] | None:
        """A symbol that the section defines, by number, and how far behind it ``offset`` is; None if it has none."""
        found = [(n, each) for n, each in enumerate(self.symbols) if each.section == section]
        found.sort(key=lambda pair: pair[1].kind != _SECTION)
        return next(((n, offset - each.value) for n, each in found), None)

    def weaken(self, number: int) -> None:
        """Make a symbol weak, so that no linker misses it if nothing defines it."""
        place = self._rows[self._table].offset + number * _SYMBOL.size
        name, info, *others = _SYMBOL.unpack_from(self._data, place)
        _SYMBOL.pack_into(self._data, place, name, _WEAK << 4 | info & 15, *others)

    def undefined(self, name: str) -> int:
        """The number of a symbol that another object file defines; it is added if it is not there."""
        for number, each in enumerate(self.symbols):
            if each.name == name and number:
                return number
        at = self._lengthen(self._rows[self._table].link, name.encode() + b"\0")
        self._lengthen(self._table, _SYMBOL.pack(at, _GLOBAL << 4, 0, 0, 0, 0))
        self.symbols = (*self.symbols, ObjectSymbol(name, 0, 0, 0))
        return len(self.symbols) - 1

    def add_section(self, name: str, kind: int, content: bytes, beside: int, fixes: list[tuple[int, int, int]]) -> None:
        """Add a section that is not loaded, and is kept and left out together with the section ``beside``. ``fixes``
        are 64-bit addresses in it: offset, number of a symbol, addend."""
        group = SHF_GROUP if self._rows[beside].flags & SHF_GROUP else 0
        number = len(self._rows)
        table = b"".join(_RELOCATION.pack(offset, symbol << 32 | R_64, addend) for offset, symbol, addend in fixes)
        self._append(name, _Row(0, kind, group, 0, 0, 0, 0, 0, 4, 0), content)
        flags = SHF_INFO_LINK | group
        self._append(f".rela{name}", _Row(0, SHT_RELA, flags, 0, 0, 0, self._table, number, 8, _RELOCATION.size), table)
        if group:
            self._lengthen(self._group_of(beside), struct.pack("<2I", number, number + 1))

    def _append(self, name: str, row: _Row, content: bytes) -> None:
        at = self._lengthen(self._head[12], name.encode() + b"\0")
        self._data += bytes(-len(self._data) % 8)
        self._rows.append(replace(row, name=at, offset=len(self._data), size=len(content)))
        self._data += content

    def _lengthen(self, section: int, more: bytes) -> int:
        """Append to the content of a section, which moves behind all others. Returns how long the content was."""
        row = self._rows[section]
        old = bytes(self._data[row.offset : row.offset + row.size])
        self._data += bytes(-len(self._data) % 8)
        self._rows[section] = replace(row, offset=len(self._data), size=row.size + len(more))
        self._data += old + more
        return row.size

    def _group_of(self, section: int) -> int:
        for number, row in enumerate(self._rows):
            members = self._data[row.offset : row.offset + row.size] if row.kind == SHT_GROUP else b""
            if section in [each[0] for each in struct.iter_unpack("<I", members)][1:]:
                return number
        raise ImageError("not-elf", f"section {section} belongs to a group that is not there")

    def _symbols(self) -> Iterator[ObjectSymbol]:
        table = self._rows[self._table]
        names = self._rows[table.link]
        strings = bytes(self._data[names.offset : names.offset + names.size])
        content = bytes(self._data[table.offset : table.offset + table.size])
        for at, info, _, section, value, _ in _SYMBOL.iter_unpack(content):
            name = strings[at : strings.index(b"\0", at)].decode("utf-8", "replace")
            yield ObjectSymbol(name, info & 15, section, value)
