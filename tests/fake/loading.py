# SPDX-License-Identifier: LGPL-2.1-or-later
"""Loads ELF files into an address space as the kernel and the dynamic linker would, but reads them with pyelftools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from gilk.targets.base import Loaded
from tests.fake.space import PAGE, Backing, Region, Space

_BIAS, _LIBRARIES, _APART = 0x5555_5555_4000, 0x7F00_0000_0000, 0x100_0000
_RIGHTS = ("-", "x"), ("-", "w"), ("-", "r")


@dataclass(frozen=True)
class Part:
    """A segment of type PT_LOAD."""

    address: int
    offset: int
    content: bytes
    size: int
    flags: int


@dataclass(frozen=True)
class Elf:
    """The contents of an ELF file: defined ``symbols``, and relocations as (address, type, symbol, addend)."""

    path: Path
    entry: int
    fixed: bool
    parts: tuple[Part, ...]
    symbols: dict[str, int]
    relocations: tuple[tuple[int, int, str, int], ...]


@cache
def read(path: Path) -> Elf:
    with path.open("rb") as file:
        elf = ELFFile(file)
        parts = tuple(
            Part(one["p_vaddr"], one["p_offset"], one.data(), one["p_memsz"], one["p_flags"])
            for one in elf.iter_segments("PT_LOAD")
        )
        tables = [elf.get_section_by_name(name) for name in (".symtab", ".dynsym")]
        symbols = {
            symbol.name: symbol["st_value"]
            for table in tables
            if table is not None
            for symbol in table.iter_symbols()
            if symbol["st_shndx"] != "SHN_UNDEF"
        }
        return Elf(path, elf["e_entry"], elf["e_type"] == "ET_EXEC", parts, symbols, tuple(_relocations(elf)))


def _relocations(elf: Any) -> Iterator[tuple[int, int, str, int]]:
    for section in elf.iter_sections():
        if isinstance(section, RelocationSection):
            names = elf.get_section(section["sh_link"])
            for one in section.iter_relocations():
                number = one["r_info_sym"]
                name = names.get_symbol(number).name if number else ""
                yield one["r_offset"], one["r_info_type"], name, one["r_addend"]


def load(space: Space, paths: Sequence[Path]) -> tuple[Loaded, ...]:
    """Map the files, the program first, and relocate them."""
    files = [read(path) for path in paths]
    biases = [0 if one.fixed else _BIAS if not n else _LIBRARIES + n * _APART for n, one in enumerate(files)]
    for one, bias in zip(files, biases, strict=True):
        for part in one.parts:
            _map(space, one.path, part, bias)
    everything = {name: at + bias for one, bias in reversed(list(zip(files, biases, strict=True)))
                  for name, at in one.symbols.items()}  # fmt: skip
    for one, bias in zip(files, biases, strict=True):
        _relocate(space, one, bias, everything)
    return tuple(_loaded(one, bias, not n) for n, (one, bias) in enumerate(zip(files, biases, strict=True)))


def _loaded(one: Elf, bias: int, main: bool) -> Loaded:
    first, last = one.parts[0], one.parts[-1]
    return Loaded(one.path, bias, first.address + bias, last.address + last.size + bias, main, one.path.name)


def _map(space: Space, path: Path, part: Part, bias: int) -> None:
    """Map a segment. The file is mapped in whole pages, as by mmap(2); memory without bytes in the file is zero."""
    start, within = (part.address & -PAGE) + bias, part.address % PAGE
    status, size = path.stat(), (within + part.size + PAGE - 1) & -PAGE
    content = path.read_bytes()[part.offset - within :]
    kept = within + len(part.content) if part.size > len(part.content) else size
    backing = Backing.anonymous(size, str(path))
    backing.content[: len(content[:kept])] = content[:kept]
    backing.inode, backing.device = status.st_ino, status.st_dev
    rights = "".join(_RIGHTS[bit][part.flags >> bit & 1] for bit in (2, 1, 0)) + "p"
    space.add(Region(start, start + size, rights, backing, shift=part.offset - within))


def _relocate(space: Space, one: Elf, bias: int, everything: dict[str, int]) -> None:
    for at, kind, name, addend in one.relocations:
        match kind:
            case 8:
                value = bias + addend
            case 1:
                value = everything[name] + addend
            case 6 | 7:
                value = everything[name]
            case _:
                raise NotImplementedError(f"{one.path}: a relocation of type {kind}")
        space.write(at + bias, value.to_bytes(8, "little"))
