# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads symbol tables: .symtab and .dynsym, of the file and of its debug file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy
from numpy.typing import NDArray

from gilk.image import dynamic as dyn
from gilk.image.dynamic import DynamicSection
from gilk.image.header import SHT_DYNSYM, SHT_SYMTAB, Header
from gilk.image.memory import MALFORMED, ImageMemory
from gilk.image.model import ElfSymbol, SymbolKind
from gilk.values import dataclass

ROW = numpy.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
SHN_UNDEF, SHN_ABS = 0, 0xFFF1
STB_LOCAL = 0
HIDDEN = (1, 2)  # STV_INTERNAL, STV_HIDDEN
KINDS = {
    0: SymbolKind.NOTYPE,
    1: SymbolKind.OBJECT,
    2: SymbolKind.FUNC,
    5: SymbolKind.OBJECT,  # STT_COMMON
    10: SymbolKind.IFUNC,  # STT_GNU_IFUNC
}

Rows = NDArray[numpy.void]


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """A symbol table as in the file. ``source`` is symtab, dynsym or debug."""

    rows: Rows
    strings: bytes
    source: str


def section_table(header: Header, kind: int, source: str) -> SymbolTable | None:
    """The first symbol table of type ``kind`` (SHT_SYMTAB, SHT_DYNSYM); None if there is none."""
    section = next((s for s in header.sections if s.kind == kind), None)
    if section is None or section.link >= len(header.sections):
        return None
    try:
        content = header.content(section)
        strings = header.content(header.sections[section.link])
    except MALFORMED:
        return None
    return SymbolTable(_rows(content), strings, source)


def symtab(header: Header, source: str = "symtab") -> SymbolTable | None:
    return section_table(header, SHT_SYMTAB, source)


def dynsym(header: Header, dynamic: DynamicSection, memory: ImageMemory, referenced: int) -> SymbolTable | None:
    """The dynamic symbols, found by the dynamic segment or else by the section; None if there are none.

    ``referenced`` is one more than the highest row that a relocation names.
    """
    address = dynamic.values.get(dyn.DT_SYMTAB)
    if address is None:
        return section_table(header, SHT_DYNSYM, "dynsym")
    try:
        available = memory.tail(address)
    except MALFORMED:
        return None
    section = next((s for s in header.sections if s.kind == SHT_DYNSYM and s.address == address), None)
    count = section.size // ROW.itemsize if section else dyn.symbol_count(dynamic, memory)
    return SymbolTable(_rows(available[: max(count, referenced) * ROW.itemsize]), dynamic.strings, "dynsym")


def _rows(content: bytes) -> Rows:
    return numpy.frombuffer(content, ROW, len(content) // ROW.itemsize)


def names(strings: bytes, offsets: NDArray[numpy.uint32]) -> list[str]:
    """The strings at ``offsets``; '' for an offset outside of the table.

    Strings may share tails, so a hostile table of n bytes could ask for n*n/2 bytes of names: after 16 times the
    table's size and a MiB, the rest are ''.
    """
    room = 16 * len(strings) + (1 << 20)
    found = []
    for start in offsets.tolist():
        end = strings.find(b"\0", start) if room > 0 else start
        name = strings[start : end if end >= 0 else len(strings)]
        room -= len(name)
        found.append(name.decode("utf-8", "backslashreplace"))
    return found


def names_of(table: SymbolTable | None, indexes: Iterable[int]) -> dict[int, str]:
    """The names of the rows ``indexes``, defined or not, by index; rows without a name are left out."""
    if table is None:
        return {}
    known = sorted({index for index in indexes if index < len(table.rows)})
    found = zip(known, names(table.strings, table.rows["name"][known]), strict=True)
    return {index: name for index, name in found if name}


def named(table: SymbolTable, name: str) -> SymbolTable:
    """The rows of a table, defined or not, that have the name ``name``."""
    text, places = name.encode("utf-8", "surrogateescape") + b"\0", []
    at = table.strings.find(text)
    while at >= 0:  # strings may share tails
        places.append(at)
        at = table.strings.find(text, at + 1)
    return SymbolTable(table.rows[numpy.isin(table.rows["name"], places)], table.strings, table.source)


def symbols(table: SymbolTable) -> list[ElfSymbol]:
    """The defined functions, objects and labels of a table, in its order."""
    rows = table.rows
    defined = (rows["section"] != SHN_UNDEF) & (rows["section"] != SHN_ABS)
    rows = rows[defined & numpy.isin(rows["info"] & 15, list(KINDS))]
    local = (rows["info"] >> 4) == STB_LOCAL
    exported = ~local & ~numpy.isin(rows["other"] & 3, HIDDEN) & (table.source == "dynsym")
    kinds = [KINDS[kind] for kind in (rows["info"] & 15).tolist()]
    columns = (rows["value"].tolist(), rows["size"].tolist(), kinds, exported.tolist(), local.tolist())
    found = zip(names(table.strings, rows["name"]), *columns, strict=True)
    return [ElfSymbol(*fields) for fields in found if fields[0]]


def merge(tables: Iterable[Sequence[ElfSymbol]]) -> tuple[ElfSymbol, ...]:
    """The symbols of all tables, each once, sorted by address; the first table that has a symbol wins.

    Tables come in the order of trust, the dynamic symbols first: only they tell what is exported. A name may occur
    twice at one address with two sizes, for two versions (sys_errlist in libc).
    """
    found: dict[tuple[str, int, int, SymbolKind], ElfSymbol] = {}
    for table in tables:
        for symbol in table:
            found.setdefault((symbol.name, symbol.address, symbol.size, symbol.kind), symbol)
    return tuple(sorted(found.values(), key=lambda symbol: (symbol.address, symbol.name)))
