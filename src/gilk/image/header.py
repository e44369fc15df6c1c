# SPDX-License-Identifier: LGPL-2.1-or-later
"""The ELF header, program headers and section headers (System V gABI, chapters 4 and 5)."""

from __future__ import annotations

import struct

from gilk.errors import ImageError
from gilk.image.model import LoadSegment, Section
from gilk.image.source import LARGEST_READ, ByteSource
from gilk.values import dataclass

ET_EXEC, ET_DYN = 2, 3
EM_X86_64 = 62
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE = 1, 2, 3, 4
PT_GNU_EH_FRAME = 0x6474E550
PF_X, PF_W = 1, 2
SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_NOTE, SHT_NOBITS, SHT_DYNSYM = 2, 3, 4, 7, 8, 11
SHF_ALLOC, SHF_EXECINSTR = 2, 4
MOST_SECTIONS = 1 << 16
MOST_SEGMENTS = 1 << 8
EHDR = struct.Struct("<16xHHIQQQIHHHHHH")
_PHDR = struct.Struct("<IIQQQQQQ")
SHDR = struct.Struct("<IIQQQQIIQQ")
_TYPES = {1: "an object file", 4: "a core dump"}


@dataclass(frozen=True, slots=True)
class ProgramHeader:
    kind: int
    flags: int
    offset: int
    address: int
    file_size: int
    size: int


@dataclass(frozen=True, slots=True)
class SectionHeader:
    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int

    @property
    def loaded(self) -> bool:
        return bool(self.flags & SHF_ALLOC)


@dataclass(frozen=True, slots=True)
class Header:
    """The ELF header, the program headers and the section headers. ``sections`` is empty if that table is missing or
    broken.
    """

    source: ByteSource
    position_independent: bool
    entry: int
    programs: tuple[ProgramHeader, ...]
    sections: tuple[SectionHeader, ...]

    def section(self, name: str) -> SectionHeader | None:
        return next((section for section in self.sections if section.name == name), None)

    def program(self, kind: int) -> ProgramHeader | None:
        return next((program for program in self.programs if program.kind == kind), None)

    def content(self, section: SectionHeader) -> bytes:
        """The section's bytes in the file; b'' if it has none (.bss, or stripped to a debug file)."""
        return b"" if section.kind == SHT_NOBITS else self.source.read(section.offset, section.size)


def parse(source: ByteSource) -> Header:
    """The headers of an ELF file. Raises ImageError not-elf, elf-class, elf-machine, elf-type, elf-truncated or
    elf-malformed.
    """
    _check_ident(source)
    fields = EHDR.unpack(source.read(0, EHDR.size))
    kind, machine, _, entry, phoff, shoff, _, _, phentsize, phnum, shentsize, shnum, shstrndx = fields
    if machine != EM_X86_64:
        raise ImageError("elf-machine", f"{source.path}: for machine {machine}, not x86-64")
    if kind not in (ET_EXEC, ET_DYN):
        what = _TYPES.get(kind, f"of ELF type {kind}")
        raise ImageError("elf-type", f"{source.path}: {what}, neither a program nor a shared library")
    programs = _programs(source, phoff, phentsize, phnum)
    try:
        sections = _sections(source, shoff, shentsize, shnum, shstrndx)
    except ImageError:  # the loader never looks at them, so they are not needed
        sections = ()
    return Header(source, kind == ET_DYN, entry, programs, sections)


def _check_ident(source: ByteSource) -> None:
    ident = source.read(0, min(16, source.size))
    if ident[:4] != b"\x7fELF":
        raise ImageError("not-elf", f"{source.path}: not an ELF file")
    if len(ident) < 16:
        raise ImageError("elf-truncated", f"{source.path}: ends within its ELF header")
    if ident[4] != 2:
        raise ImageError("elf-class", f"{source.path}: a 32-bit program", "gilk instruments 64-bit code only")
    if ident[5] != 1:
        raise ImageError("elf-machine", f"{source.path}: for a big-endian machine, not x86-64")


def _programs(source: ByteSource, offset: int, entry_size: int, count: int) -> tuple[ProgramHeader, ...]:
    if count and entry_size != _PHDR.size:
        raise ImageError("elf-malformed", f"{source.path}: a program header has {entry_size} bytes")
    table = source.read(offset, count * _PHDR.size)
    return tuple(
        ProgramHeader(kind, flags, offset, address, file_size, size)
        for kind, flags, offset, address, _, file_size, size, _ in _PHDR.iter_unpack(table)
    )


def _sections(source: ByteSource, offset: int, entry_size: int, count: int, names: int) -> tuple[SectionHeader, ...]:
    if not offset or entry_size != SHDR.size:
        return ()
    if count == 0 or names == 0xFFFF:  # too many for 16 bits: the first entry has the numbers
        first = SHDR.unpack(source.read(offset, SHDR.size))
        count, names = count or first[5], first[6] if names == 0xFFFF else names
    if not 0 <= names < count <= MOST_SECTIONS:
        return ()
    rows = list(SHDR.iter_unpack(source.read(offset, count * SHDR.size)))
    strings = source.read(rows[names][4], rows[names][5])
    return tuple(SectionHeader(_name(strings, row[0]), row[1], row[2], row[3], row[4], row[5], row[6]) for row in rows)


def _name(strings: bytes, offset: int) -> str:
    return strings[offset : offset + 256].partition(b"\0")[0].decode("utf-8", "backslashreplace")


def segments(header: Header) -> tuple[LoadSegment, ...]:
    """The PT_LOAD segments with their content, sorted by address.

    Raises ImageError elf-truncated, or elf-malformed if there are no segments or too many, if they overlap in memory,
    or if they share so much of the file that reading them would need far more memory than the file has bytes.
    """
    return tuple(_segment(header.source, program) for program in loads(header))


def loads(header: Header) -> list[ProgramHeader]:
    """The program headers of the segments that are loaded, by address. Raises as segments does."""
    path = header.source.path
    loads = sorted((p for p in header.programs if p.kind == PT_LOAD), key=lambda p: p.address)
    loads = [p for p in loads if p.size]
    if not 0 < len(loads) <= MOST_SEGMENTS:
        raise ImageError("elf-malformed", f"{path}: {len(loads)} segments to load, not 1 to {MOST_SEGMENTS}")
    for program, following in zip(loads, [*loads[1:], None], strict=True):
        limit = following.address if following else 1 << 64
        if program.file_size > program.size or program.address + program.size > limit:
            raise ImageError("elf-malformed", f"{path}: the segment at {program.address:#x} overlaps or wraps")
    if sum(p.file_size for p in loads) > min(2 * header.source.size, LARGEST_READ):
        raise ImageError("elf-malformed", f"{path}: segments larger than the file")
    return loads


def _segment(source: ByteSource, program: ProgramHeader) -> LoadSegment:
    data = source.read(program.offset, program.file_size)
    executable, writable = bool(program.flags & PF_X), bool(program.flags & PF_W)
    return LoadSegment(program.address, program.size, program.offset, data, executable, writable)


def sections(header: Header) -> tuple[Section, ...]:
    """The sections that are in memory at run time."""
    return tuple(
        Section(s.name, s.address, s.size, s.offset, bool(s.flags & SHF_EXECINSTR)) for s in header.sections if s.loaded
    )
