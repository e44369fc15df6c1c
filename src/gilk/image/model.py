# SPDX-License-Identifier: LGPL-2.1-or-later
"""Images, which are code with symbols, as immutable values.

All addresses here are link-time virtual addresses of the ELF file (``p_vaddr``
space); a process adds its load bias.
"""

from __future__ import annotations

import bisect
import marshal
from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from gilk.digest import digest
from gilk.values import dataclass

_PLAIN = 2  # the version of marshal's format without references: it makes equal bytes of equal values


class SymbolKind(StrEnum):
    FUNC = "func"
    IFUNC = "ifunc"
    OBJECT = "object"
    NOTYPE = "notype"


# There are tens of thousands of symbols, frames and spans in an image: a NamedTuple is made in a third of the time.


class ElfSymbol(NamedTuple):
    """A row of .symtab or .dynsym. ``size`` is in bytes, 0 when the file does not say."""

    name: str
    address: int
    size: int
    kind: SymbolKind
    exported: bool  # in .dynsym, defined, global or weak, default visibility
    local: bool  # STB_LOCAL


@dataclass(frozen=True, slots=True)
class LoadSegment:
    """A PT_LOAD program header; ``data`` is its file content (shorter than ``size`` for bss)."""

    address: int
    size: int
    offset: int
    data: bytes
    executable: bool
    writable: bool


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    address: int
    size: int
    offset: int
    executable: bool


class FrameDescription(NamedTuple):
    """An FDE of .eh_frame: the code [start, end), with the landing pads of its LSDA."""

    start: int
    end: int
    landing_pads: tuple[int, ...]
    signal: bool  # augmentation 'S': a signal trampoline


class FunctionSpan(NamedTuple):
    """The bytes [start, end) of one function, with all its names.

    ``source`` is the table that tells the extent: symtab, dynsym, debug, eh_frame, or kallsyms.
    """

    name: str
    start: int
    end: int
    aliases: tuple[str, ...]
    source: str
    ifunc: bool = False
    exported: bool = False
    local: bool = False


@dataclass(frozen=True)
class Image:
    """An ELF file for x86-64, or a kernel, as values; nothing is mapped or open."""

    path: Path
    build_id: str  # hex; sha-256 of the file content when it has no note, prefixed "sha256-"
    position_independent: bool  # ET_DYN
    static: bool  # no PT_INTERP and no DT_NEEDED
    entry: int
    interpreter: str
    needed: tuple[str, ...]
    soname: str
    segments: tuple[LoadSegment, ...]
    sections: tuple[Section, ...]
    symbols: tuple[ElfSymbol, ...]
    frames: tuple[FrameDescription, ...]  # sorted by start
    spans: tuple[FunctionSpan, ...]  # functions, sorted by start, disjoint
    plt: dict[int, str] = field(default_factory=dict)  # address of a PLT stub -> symbol name
    got: dict[int, str] = field(default_factory=dict)  # address of a GOT slot (GLOB_DAT, JUMP_SLOT) -> symbol name
    relative: dict[int, int] = field(default_factory=dict)  # R_X86_64_RELATIVE: slot -> addend
    symbolic: dict[int, str] = field(default_factory=dict)  # R_X86_64_64: word of data -> symbol name
    reserved: tuple[tuple[int, int, str], ...] = ()  # (start, end, refusal): e.g. rseq critical sections
    detours: dict[int, tuple[int, ...]] = field(default_factory=dict)  # instruction -> its other targets
    returns: frozenset[int] = frozenset()  # return thunks: a jump there is a return
    dispatchers: frozenset[int] = frozenset()  # retpolines and the like: a jump there is an indirect jump
    conventional: frozenset[int] = frozenset()  # functions that callers know only by the calling convention
    unwinding: tuple[int, int] = (0, 0)  # address and size of .eh_frame; size 0 if there is none
    digest: bytes = b""  # the value of `content`, if it is known from an earlier run
    called: str = ""  # the file's name, if the path that it was read by ends in another

    @property
    def name(self) -> str:
        """The file's own name: ``libc.so.6``, ``bash``."""
        return self.called or self.path.name

    @cached_property
    def content(self) -> bytes:
        """A digest of all that was read but path and name: two images have the same digest only if everything that was
        read of them is equal, wherever it came from.

        The key of a finding must contain this digest and nothing else for an image: otherwise a finding about one
        user's file might be used for another's. Whoever makes a file chooses its build id and any checksum that is not
        a cryptographic digest, and a debug file adds names.
        """
        if self.digest:
            return self.digest
        shapes = [(s.address, s.size, s.offset, len(s.data), s.executable, s.writable) for s in self.segments]
        state = digest(marshal.dumps((shapes, self._plain()), _PLAIN))
        for segment in self.segments:
            state.update(segment.data)
        return state.digest()

    def _plain(self) -> tuple[Any, ...]:
        """All fields of the image but the segments, in types that marshal knows."""
        return (
            self.build_id, self.position_independent, self.static, self.entry, self.interpreter, self.needed,
            self.soname, [(s.name, s.address, s.size, s.offset, s.executable) for s in self.sections],
            [(*symbol[:3], str(symbol.kind), *symbol[4:]) for symbol in self.symbols],
            list(map(tuple, self.frames)), list(map(tuple, self.spans)), self.plt, self.got, self.relative,
            self.symbolic,
            [(start, end, str(refusal)) for start, end, refusal in self.reserved],
            sorted(self.detours.items()), sorted(self.returns), sorted(self.dispatchers), sorted(self.conventional),
            self.unwinding,
        )  # fmt: skip

    @cached_property
    def is_go(self) -> bool:
        """Whether the image was made by the Go compiler: it has the table of functions of Go's runtime."""
        return any(section.name.endswith(".gopclntab") for section in self.sections)

    @cached_property
    def go_text(self) -> tuple[int, int]:
        """The range [start, end) of the code that the Go compiler made; C that a Go program is linked with lies outside
        of it. (0, 0) if no code is known to be Go's.
        """
        ends = [[s.address for s in self.named(f"runtime.{name}")] for name in ("text", "etext")]
        return (ends[0][0], ends[1][0]) if self.is_go and all(ends) else (0, 0)

    @cached_property
    def _starts(self) -> list[int]:
        return [span.start for span in self.spans]

    def offset_of(self, address: int, size: int = 1, writable: bool = False) -> int:
        """The offset in the file of ``size`` bytes of code at ``address``, or with ``writable`` of data; -1 if the file
        has no content for them.
        """
        for segment in self.segments:
            meant = segment.writable if writable else segment.executable
            if meant and 0 <= address - segment.address <= len(segment.data) - size:
                return segment.offset + address - segment.address
        return -1

    def span_at(self, address: int) -> FunctionSpan | None:
        """The function whose bytes contain ``address``; None if there is none."""
        i = bisect.bisect_right(self._starts, address) - 1
        if i >= 0 and address < self.spans[i].end:
            return self.spans[i]
        return None

    @cached_property
    def _objects(self) -> list[ElfSymbol]:
        """The symbols of variables with a size, by address."""
        found = (each for each in self.symbols if each.kind == SymbolKind.OBJECT and each.size and each.address)
        return sorted(found, key=lambda each: (each.address, each.size))

    def object_at(self, address: int) -> ElfSymbol | None:
        """The variable whose bytes contain ``address``; None if there is none."""
        i = bisect.bisect_right(self._objects, address, key=lambda each: each.address) - 1
        found = self._objects[i] if i >= 0 else None
        return found if found is not None and address < found.address + found.size else None

    def span_before(self, address: int) -> FunctionSpan | None:
        """The last function that starts before ``address``, if it ends at or before it; None otherwise."""
        i = bisect.bisect_left(self._starts, address) - 1
        return self.spans[i] if i >= 0 and self.spans[i].end <= address else None

    def span_after(self, address: int) -> FunctionSpan | None:
        """The first function that starts at or after ``address``; None if there is none."""
        i = bisect.bisect_left(self._starts, address)
        return self.spans[i] if i < len(self.spans) else None

    @cached_property
    def _by_name(self) -> dict[str, list[ElfSymbol]]:
        found: dict[str, list[ElfSymbol]] = {}
        for symbol in self.symbols:
            found.setdefault(symbol.name, []).append(symbol)
        return found

    def named(self, name: str) -> Sequence[ElfSymbol]:
        """The symbols of that name, in the order of ``symbols``."""
        return self._by_name.get(name, ())

    def read(self, address: int, size: int) -> bytes:
        """The initial content of ``size`` bytes of memory; fewer at a segment's end, b'' if ``address`` lies in no
        segment.
        """
        for segment in self.segments:
            offset = address - segment.address
            if 0 <= offset < segment.size:
                return segment.data[offset : offset + size]
        return b""
