# SPDX-License-Identifier: LGPL-2.1-or-later
"""The dynamic segment: the tables for the run-time linker. It is the only source of symbols if section headers are
missing.
"""

from __future__ import annotations

import struct

from gilk.image.header import PT_DYNAMIC, PT_INTERP, Header, loads
from gilk.image.memory import MALFORMED, ImageMemory
from gilk.values import dataclass

DT_NEEDED, DT_PLTRELSZ, DT_HASH, DT_STRTAB, DT_SYMTAB = 1, 2, 4, 5, 6
DT_RELA, DT_RELASZ, DT_STRSZ, DT_SONAME, DT_JMPREL = 7, 8, 10, 14, 23
DT_RELRSZ, DT_RELR = 35, 36
DT_GNU_HASH = 0x6FFFFEF5
MOST_ENTRIES = 1 << 14
_LONGEST_NAME = 4096  # in bytes


@dataclass(frozen=True, slots=True)
class DynamicSection:
    """The values of the dynamic table by tag (the last one if a tag is repeated), with its strings."""

    values: dict[int, int]
    strings: bytes
    needed: tuple[str, ...]
    soname: str

    def table(self, memory: ImageMemory, start: int, size: int) -> bytes:
        """The bytes of the table whose address has the tag ``start`` and whose size the tag ``size``; b'' if there is
        none.
        """
        if start not in self.values or not self.values.get(size, 0):
            return b""
        return memory.read(self.values[start], self.values[size])


NOTHING = DynamicSection({}, b"", (), "")


def parse(header: Header, memory: ImageMemory) -> DynamicSection:
    """The dynamic table; NOTHING if the program has none, or a broken one."""
    program = header.program(PT_DYNAMIC)
    if program is None:
        return NOTHING
    try:
        pairs = _pairs(memory.read(program.address, min(program.file_size, MOST_ENTRIES * 16)))
        values = dict(pairs)
        strings = memory.read(values[DT_STRTAB], values[DT_STRSZ]) if DT_STRSZ in values else b""
    except (*MALFORMED, KeyError):
        return NOTHING
    needed = tuple(text(strings, value) for tag, value in pairs if tag == DT_NEEDED)
    return DynamicSection(values, strings, needed, text(strings, values[DT_SONAME]) if DT_SONAME in values else "")


def _pairs(table: bytes) -> list[tuple[int, int]]:
    pairs = []
    for tag, value in struct.iter_unpack("<QQ", table[: len(table) & ~15]):
        if tag == 0:
            break
        pairs.append((tag, value))
    return pairs


def text(strings: bytes, offset: int) -> str:
    """The string at ``offset`` of a string table, at most 4096 bytes: the name of a file, not of a symbol."""
    return strings[offset : offset + 4096].partition(b"\0")[0].decode("utf-8", "backslashreplace")


def interpreter(header: Header) -> str:
    """The path in PT_INTERP; '' if there is none."""
    program = header.program(PT_INTERP)
    if program is None:
        return ""
    try:
        return text(header.source.read(program.offset, min(program.file_size, 4096)), 0)
    except MALFORMED:
        return ""


def soname(header: Header) -> str:
    """DT_SONAME, or '', found without reading the rest of the file, so that a user may name any image of a process by
    it.
    """
    program = header.program(PT_DYNAMIC)
    if program is None:
        return ""
    try:
        values = dict(_pairs(header.source.read(program.offset, min(program.file_size, MOST_ENTRIES * 16))))
        offset = _file_offset(header, values[DT_STRTAB] + values[DT_SONAME])
        size = max(0, min(values[DT_STRSZ] - values[DT_SONAME], _LONGEST_NAME))
        return text(header.source.read(offset, size), 0)
    except (*MALFORMED, KeyError):
        return ""


def _file_offset(header: Header, address: int) -> int:
    """The offset in the file of the byte at ``address``. Raises ValueError if the address is in no segment."""
    for load in loads(header):
        if load.address <= address < load.address + load.file_size:
            return load.offset + address - load.address
    raise ValueError(f"no segment has the address {address:#x}")


def symbol_count(dynamic: DynamicSection, memory: ImageMemory) -> int:
    """The number of rows that DT_SYMTAB has by its hash tables; 0 if they do not tell.

    DT_GNU_HASH only covers defined symbols, and undefined ones that precede them: for a program that exports nothing it
    may give fewer than there are.
    """
    counts = [0]
    for tag, count in ((DT_HASH, _sysv_count), (DT_GNU_HASH, _gnu_count)):
        try:
            if tag in dynamic.values:
                counts.append(count(memory, dynamic.values[tag]))
        except MALFORMED:
            continue
    return max(counts)


def _sysv_count(memory: ImageMemory, address: int) -> int:
    (chains,) = struct.unpack("<4xI", memory.read(address, 8))
    return int(chains)


def _gnu_count(memory: ImageMemory, address: int) -> int:
    """The number of rows by DT_GNU_HASH: the chain of the highest bucket ends at the entry with bit 0 set."""
    buckets, first, bloom, _ = struct.unpack("<IIII", memory.read(address, 16))
    table = address + 16 + 8 * bloom
    last = max(struct.unpack(f"<{buckets}I", memory.read(table, 4 * buckets)), default=0)
    if last < first:
        return int(first)
    chain = memory.tail(table + 4 * buckets + 4 * (last - first))
    for i, (entry,) in enumerate(struct.iter_unpack("<I", chain[: len(chain) & ~3])):
        if entry & 1:
            return int(last + i + 1)
    return 0
