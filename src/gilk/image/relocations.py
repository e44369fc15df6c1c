# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads dynamic relocations: the slots that hold addresses, and the names that slots refer to, once the program is
loaded.
"""

from __future__ import annotations

import numpy
from numpy.typing import NDArray

from gilk.errors import ImageError
from gilk.image import dynamic as dyn
from gilk.image.dynamic import DynamicSection
from gilk.image.header import SHT_RELA, Header
from gilk.image.memory import MALFORMED, ImageMemory, Words
from gilk.values import dataclass

R_64, R_GLOB_DAT, R_JUMP_SLOT, R_RELATIVE, R_IRELATIVE = 1, 6, 7, 8, 37
ROW = numpy.dtype([("slot", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<u8")])
Rows = NDArray[numpy.void]


@dataclass(frozen=True, slots=True)
class Relocations:
    """The relocations of an image; addresses are link-time. ``relative`` maps a slot to the address that it holds,
    ``named`` a GOT slot to a row of .dynsym, ``symbolic`` a word of data to such a row.
    """

    relative: dict[int, int]
    named: dict[int, int]
    symbolic: dict[int, int]
    resolvers: dict[int, int]  # slot -> address of the IFUNC resolver

    @property
    def referenced(self) -> int:
        """The number of rows of .dynsym in use: one more than the highest."""
        return max((*self.named.values(), *self.symbolic.values()), default=-1) + 1


def parse(header: Header, dynamic: DynamicSection, memory: ImageMemory) -> Relocations:
    """The relocations of DT_RELA, DT_JMPREL and DT_RELR, or of the sections of a static program; broken tables are left
    out.
    """
    rows = _rows(header, dynamic, memory)
    relative = dict(_pick(rows, R_RELATIVE, "addend"))
    try:
        relative.update(_relr(dynamic.table(memory, dyn.DT_RELR, dyn.DT_RELRSZ), memory))
    except MALFORMED:
        pass
    named = dict(_pick(rows, R_GLOB_DAT, "symbol")) | dict(_pick(rows, R_JUMP_SLOT, "symbol"))
    symbolic = dict(_pick(rows, R_64, "symbol"))
    return Relocations(relative, named, symbolic, dict(_pick(rows, R_IRELATIVE, "addend")))


def _pick(rows: Rows, kind: int, column: str) -> list[tuple[int, int]]:
    chosen = rows[rows["type"] == kind]
    return list(zip(chosen["slot"].tolist(), chosen[column].tolist(), strict=True))


def _rows(header: Header, dynamic: DynamicSection, memory: ImageMemory) -> Rows:
    tables = []
    for start, size in ((dyn.DT_RELA, dyn.DT_RELASZ), (dyn.DT_JMPREL, dyn.DT_PLTRELSZ)):
        try:
            tables.append(dynamic.table(memory, start, size))
        except MALFORMED:
            continue
    if not dynamic.values:
        tables.extend(_static_tables(header))
    parts = [numpy.frombuffer(table, ROW, len(table) // ROW.itemsize) for table in tables]
    return numpy.concatenate([numpy.empty(0, ROW), *parts])


def _static_tables(header: Header) -> list[bytes]:
    """The tables of a static program that is not position-independent: it has no dynamic segment, but IRELATIVE
    relocations that its start-up code applies.
    """
    tables = []
    for section in header.sections:
        try:
            if section.kind == SHT_RELA and section.loaded:
                tables.append(header.content(section))
        except ImageError:
            continue
    return tables


def _relr(table: bytes, memory: ImageMemory) -> list[tuple[int, int]]:
    """The slots of the compact table (gABI, "SHT_RELR"), each with the addend that it holds."""
    if not table:
        return []
    words = numpy.frombuffer(table, "<u8", len(table) // 8)
    slots = _relr_slots(words, memory)
    addresses, addends = memory.words(slots)
    return list(zip(addresses.tolist(), addends.tolist(), strict=True))


def _relr_slots(words: Words, memory: ImageMemory) -> Words:
    """The addresses of slots: an even word is one; an odd word has a bit for each of the 63 words behind the last one.

    Raises ImageError elf-malformed if there are more slots than the image has words.
    """
    room = memory.size // 8
    slots: list[int] = []
    base = 0
    for word in words.tolist():
        if word & 1 == 0:
            slots.append(word)
            base = word + 8
        else:
            slots.extend(base + 8 * bit for bit in range(63) if word >> (bit + 1) & 1)
            base += 8 * 63
        if len(slots) > room:
            raise ImageError("elf-malformed", "more relative relocations than words")
    return numpy.array([slot & 0xFFFFFFFFFFFFFFFF for slot in slots], numpy.uint64)
