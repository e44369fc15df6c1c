# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads an object file whose code needs nothing but a few addresses, and relocates it for the place where it will run,
in place of a linker.

This takes a millisecond, and a linker twenty. ELF-64 Object File Format 1.5, System V ABI x86-64 4.4.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from gilk.errors import CompileError
from gilk.image.header import SHDR
from gilk.values import dataclass

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_SYMTAB, _RELA, _NOBITS = 2, 4, 8
_NAMED = (1, 2)  # STT_OBJECT, STT_FUNC
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4
_ABSOLUTE, _RELATIVE, _CALL = 1, 2, 4  # R_X86_64_64, _PC32, _PLT32
#: R_X86_64_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX: the distance to a word with the symbol's address.
_BY_SLOT = (9, 41, 42)
_RELOCATED = (b".data.rel.ro", b".data.rel.ro.local")
_Symbol = tuple[str, int, int, int, int, int]  # a row of the symbol table, with the name
_Fix = tuple[int, int, str, int]  # as in Relocatable
_WORD = 8  # bytes
_BEHIND = 4  # bytes from the displacement of an instruction to its end, from where distances count
_DAMAGED = (struct.error, IndexError, KeyError, ValueError, OverflowError, StopIteration)
#: The alignment of the code's address, in bytes.
ALIGNED = 64
_FIRST_RESERVED = 0xFF00  # st_shndx: SHN_ABS and other special values begin here


@dataclass(frozen=True)
class SymbolBytes:
    """The bytes of a symbol: ``offset`` from the start of the content, and ``size``."""

    offset: int
    size: int


@dataclass(frozen=True)
class Relocatable:
    """An object file to be relocated. ``content``: all sections in a row, code first, unrelocated. ``fixes``:
    relocations (kind, offset, symbol or "", addend); an addend without a symbol is an offset in the content."""

    content: bytes
    code_size: int
    symbols: Mapping[str, SymbolBytes]
    fixes: tuple[_Fix, ...]

    @property
    def undefined(self) -> frozenset[str]:
        return frozenset(name for _, _, name, _ in self.fixes if name)

    def placed(self, address: int, symbols: Mapping[str, int]) -> bytes:
        """The bytes, relocated for ``address``. Raises CompileError `does-not-link`."""
        data = bytearray(self.content)
        try:
            for kind, offset, name, addend in self.fixes:
                value = (symbols[name] if name else address) + addend
                if kind == _ABSOLUTE:
                    struct.pack_into("<Q", data, offset, value)
                else:
                    struct.pack_into("<i", data, offset, value - address - offset)
        except KeyError as missing:
            raise CompileError("does-not-link", f"{missing.args[0]} is not defined") from None
        except struct.error:
            raise CompileError("does-not-link", "the code refers to something that is more than 2 GiB away") from None
        return bytes(data)


def parse(content: bytes) -> Relocatable:
    """Read an object file. Raises CompileError `does-not-link` if it is no relocatable object file for x86-64, or has
    variables."""
    try:
        return _Reader(content).read()
    except _DAMAGED as error:
        raise CompileError("does-not-link", f"the compiler did not make a relocatable object file: {error}") from None


def undefined(content: bytes) -> tuple[str, ...]:
    """The undefined names, sorted, to which relocations of an object file refer. Raises CompileError `does-not-link`,
    as parse() does, but not for variables."""
    try:
        return tuple(sorted(_Reader(content, False).referred()))
    except _DAMAGED as error:
        raise CompileError("does-not-link", f"the compiler did not make a relocatable object file: {error}") from None


def executable(content: bytes) -> tuple[bytes, ...]:
    """The sections of code, unrelocated, of an object file of any kind. Raises CompileError `does-not-link`."""
    try:
        head = _HEADER.unpack_from(content)
        rows = [SHDR.unpack_from(content, head[6] + SHDR.size * n) for n in range(head[12])]
    except struct.error as error:
        raise CompileError("does-not-link", f"the compiler did not make a relocatable object file: {error}") from None
    return tuple(content[row[4] : row[4] + row[5]] for row in rows if row[2] & _EXECUTE and row[1] != _NOBITS)


@dataclass(frozen=True)
class _Section:
    name: bytes
    kind: int
    flags: int
    data: bytes
    link: int
    info: int
    align: int


class _Reader:
    """Reads one object file. Raises ValueError, or another error that parse() translates, if it has another form.
    ``constant``: it must have no variables."""

    def __init__(self, content: bytes, constant: bool = True) -> None:
        head = _HEADER.unpack_from(content)
        if head[0][:6] != b"\x7fELF\x02\x01" or head[1:3] != (1, 62):
            raise ValueError("no relocatable file for x86-64")
        at, count, names = head[6], head[12], head[13]
        rows = [SHDR.unpack_from(content, at + SHDR.size * n) for n in range(count)]
        strings = content[rows[names][4] : rows[names][4] + rows[names][5]]
        self._sections = [
            _Section(
                _text(strings, row[0]), row[1], row[2], _data(content, row, constant), row[6], row[7], max(row[8], 1)
            )
            for row in rows
        ]

    def read(self) -> Relocatable:
        body, places = self._laid_out()
        code = max((places[n] + len(s.data) for n, s in self._kept() if s.flags & _EXECUTE), default=0)
        symbols = self._symbols()
        parts = {
            name: SymbolBytes(places[where] + value, size)
            for name, info, _, where, value, size in symbols
            if info & 15 in _NAMED and where in places
        }
        fixes = tuple(fix for n in places for fix in self._fixes(n, places, symbols))
        return Relocatable(*_with_slots(body, code, parts, fixes))

    def referred(self) -> set[str]:
        """The undefined names to which relocations refer."""
        symbols = self._symbols()
        rows = (row for table in self._sections if table.kind == _RELA for row in _RELOCATION.iter_unpack(table.data))
        return {symbols[what >> 32][0] for _, what, _ in rows if not symbols[what >> 32][3]} - {""}

    def _symbols(self) -> list[_Symbol]:
        table = next(s for s in self._sections if s.kind == _SYMTAB)
        strings = self._sections[table.link].data
        return [(_text(strings, row[0]).decode(), *row[1:]) for row in _SYMBOL.iter_unpack(table.data)]

    def _kept(self) -> Iterator[tuple[int, _Section]]:
        """The sections that are loaded at run time, code first; without tables for unwinders, which nobody would
        register."""
        kept = [(n, s) for n, s in enumerate(self._sections) if s.flags & _ALLOC and s.data and s.name != b".eh_frame"]
        return (pair for pair in sorted(kept, key=lambda pair: not pair[1].flags & _EXECUTE))

    def _laid_out(self) -> tuple[bytes, dict[int, int]]:
        body, places = bytearray(), {}
        for number, section in self._kept():
            if section.name.startswith(b".note"):
                continue
            if section.flags & _WRITE and not section.name.startswith(_RELOCATED):
                raise ValueError(f"it has variables, in {section.name.decode()}")
            if section.align > ALIGNED:
                raise ValueError(f"{section.name.decode()} is to be aligned to {section.align} bytes")
            body += bytes(-len(body) % section.align)
            places[number] = len(body)
            body += section.data
        return bytes(body), places

    def _fixes(self, number: int, places: dict[int, int], symbols: list[_Symbol]) -> Iterator[_Fix]:
        tables = (s for s in self._sections if s.kind == _RELA and s.info == number)
        for offset, what, addend in (row for table in tables for row in _RELOCATION.iter_unpack(table.data)):
            kind, (name, _, _, where, value, _) = what & 0xFFFFFFFF, symbols[what >> 32]
            if kind not in (_ABSOLUTE, _RELATIVE, _CALL, *_BY_SLOT):
                raise ValueError(f"relocation {kind}")
            if offset + (8 if kind == _ABSOLUTE else 4) > len(self._sections[number].data):
                raise ValueError(f"a relocation beyond its section, at {offset:#x}")
            if where >= _FIRST_RESERVED:
                raise ValueError(f"{name} lies nowhere")
            if kind in _BY_SLOT and addend != -_BEHIND:
                raise ValueError(f"relocation {kind} with the addend {addend}")
            at = places[number] + offset
            yield (kind, at, "", places[where] + value + addend) if where else (kind, at, name, addend)


def _with_slots(
    body: bytes, code: int, parts: Mapping[str, SymbolBytes], fixes: tuple[_Fix, ...]
) -> tuple[bytes, int, Mapping[str, SymbolBytes], tuple[_Fix, ...]]:
    """The same, with a word behind the content for each symbol whose address the code takes from one."""
    first = len(body) + -len(body) % _WORD
    slots: dict[tuple[str, int], int] = {}  # by the name, or the offset of one's own symbol
    made: list[_Fix] = []
    for kind, at, name, addend in fixes:
        if kind not in _BY_SLOT:
            made.append((kind, at, name, addend))
            continue
        key = (name, 0) if name else ("", addend + _BEHIND)
        slot = slots.setdefault(key, first + _WORD * len(slots))
        made.append((_RELATIVE, at, "", slot - _BEHIND))
    made += [(_ABSOLUTE, slot, *key) for key, slot in slots.items()]
    return (body.ljust(first + _WORD * len(slots), b"\0") if slots else body), code, parts, tuple(made)


def _data(content: bytes, row: tuple[int, ...], constant: bool) -> bytes:
    if row[1] != _NOBITS:
        return content[row[4] : row[4] + row[5]]
    if constant and row[2] & _ALLOC and row[5]:
        raise ValueError("it has variables without a value")
    return b""


def _text(strings: bytes, at: int) -> bytes:
    return strings[at : strings.index(b"\0", at)]
