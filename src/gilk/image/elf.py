# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads an ELF file into an Image: this module has the order of the steps, each of which is a file of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from gilk.image import debug, dynamic, eh_frame, header, notes, plt, relocations, remembered, rseq, symbols
from gilk.image.extents import Extents, disjoint
from gilk.image.header import Header
from gilk.image.memory import ImageMemory
from gilk.image.model import ElfSymbol, Image, LoadSegment
from gilk.image.plt import Plt
from gilk.image.relocations import Relocations
from gilk.image.remembered import CachedFields
from gilk.image.source import ByteSource, from_bytes, open_file, open_source, source_of
from gilk.image.spans import Named, spans
from gilk.image.stripped import nameless


def load(path: Path) -> Image:
    """The image of the x86-64 program or shared library at ``path``.

    Raises ImageError no-such-file, no-permission, not-elf, elf-class, elf-machine, elf-type, elf-truncated or
    elf-malformed. Broken tables that the run-time loader does not need are left out.
    """
    with open_source(path) as source:
        return _image(source)


class File:
    """An open ELF file: the data that the loader needs are read at once, all else by ``image``.

    So the files of a process need not be read completely, and can still be read once they have been removed.
    """

    def __init__(self, path: Path, descriptor: int = -1) -> None:
        """``descriptor`` is that of the file if it is open already; this object closes it. Raises ImageError as load
        does.
        """
        self._path = path
        self.descriptor = descriptor if descriptor >= 0 else open_file(path)
        try:
            head = header.parse(source_of(self.descriptor, path))
            self.loads = tuple(header.loads(head))
            self.interpreter = dynamic.interpreter(head)
            self.soname = dynamic.soname(head)
        except BaseException:
            self.close()
            raise

    def image(self) -> Image:
        """The image of the file. Raises ImageError."""
        return _image(source_of(self.descriptor, self._path))

    def exported(self, name: str) -> ElfSymbol | None:
        """The symbol of that name that the file exports, found without reading the others; None if there is none.
        Raises ImageError.
        """
        head = header.parse(source_of(self.descriptor, self._path))
        memory = ImageMemory(header.segments(head))
        table = symbols.dynsym(head, dynamic.parse(head, memory), memory, 0)
        found = symbols.symbols(symbols.named(table, name)) if table is not None else []
        return next((symbol for symbol in found if symbol.exported), None)

    def mentions(self, names: Iterable[str]) -> bool:
        """Whether the file has a symbol of any of these names, its own or an imported one; this is quicker than to read
        all of them. False if the file has no section headers. Raises ImageError.
        """
        head = header.parse(source_of(self.descriptor, self._path))
        words = [name.encode() + b"\0" for name in names]  # a match may be the end of a longer name in the table
        tables = (head.content(each) for each in head.sections if each.kind == header.SHT_STRTAB)
        return any(word in table for table in tables for word in words)

    def close(self) -> None:
        """Close the file; ``descriptor`` is -1 from then on. Closing it again does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def load_bytes(data: bytes, path: Path) -> Image:
    """The image of the bytes of a file, or of a live [vdso]; ``path`` is its name. Raises as load does."""
    return _image(from_bytes(data, path))


def _image(source: ByteSource) -> Image:
    """The image of ``source``. Findings that take long are kept as long as the file does not change."""
    head = header.parse(source)
    segments = header.segments(head)
    once = remembered.Once(head, segments)
    found = remembered.recall(once.key)
    if found is None:
        found = _contents(once.header, segments, notes.build_id(head))
        if remembered.is_worth(once, found):
            found = replace(found, digest=_made(head, segments, found).content)
            remembered.keep(once, found)
    return _made(head, segments, found)


def _made(head: Header, segments: tuple[LoadSegment, ...], found: CachedFields) -> Image:
    return Image(
        path=head.source.path,
        position_independent=head.position_independent,
        entry=head.entry,
        segments=segments,
        sections=header.sections(head),
        **vars(found),
    )


def _contents(head: Header, segments: tuple[LoadSegment, ...], build_id: str) -> CachedFields:
    memory = ImageMemory(segments)
    linked = dynamic.parse(head, memory)
    moved = relocations.parse(head, linked, memory)
    dynsym = symbols.dynsym(head, linked, memory, moved.referenced)
    tables = _tables(head, dynsym)
    unwinding = eh_frame.locate(head, memory)
    frames = eh_frame.parse(unwinding, memory)
    names = symbols.names_of(dynsym, [*moved.named.values(), *moved.symbolic.values()])
    slots = {slot: names[row] for slot, row in moved.named.items() if row in names}
    stubs = plt.parse(head, memory, slots.keys() | moved.resolvers.keys(), frames)
    found = spans(_named(tables), frames, moved.resolvers.values(), _code(head, segments, stubs))
    interpreter = dynamic.interpreter(head)
    return CachedFields(
        build_id=build_id,
        static=not interpreter and not linked.needed,
        interpreter=interpreter,
        needed=linked.needed,
        soname=linked.soname,
        symbols=symbols.merge(rows for _, rows in tables),
        frames=frames,
        unwinding=unwinding,
        spans=found,
        plt=_stub_names(stubs, slots, moved, {span.start: span.name for span in found}),
        got=slots,
        relative=moved.relative,
        symbolic={slot: names[row] for slot, row in moved.symbolic.items() if row in names},
        reserved=rseq.reserved(head, memory, moved.relative),
    )


def _tables(head: Header, dynsym: symbols.SymbolTable | None) -> list[tuple[str, list[ElfSymbol]]]:
    """The symbols of each table, with the table's name. A program that kept its .symtab needs no debug file."""
    full = symbols.symtab(head)
    if full is None or not len(full.rows):
        full = debug.debug_table(head)
    return [(table.source, symbols.symbols(table)) for table in (dynsym, full) if table is not None]


def _named(tables: list[tuple[str, list[ElfSymbol]]]) -> list[Named]:
    return [(symbol, source) for source, rows in tables for symbol in rows]


def _code(head: Header, segments: tuple[LoadSegment, ...], stubs: Plt) -> Extents:
    """The extents of executable sections other than the PLTs; if there are no section headers, those of executable
    segments.
    """
    segmented = Extents(tuple((s.address, s.address + len(s.data)) for s in segments if s.executable and s.data))
    extents = [
        (s.address, s.address + s.size) for s in header.sections(head) if s.executable and s.name not in plt.SECTIONS
    ]
    if not extents:
        return segmented.without(stubs.extents)
    # Section headers may lie: code according to them must be in a segment.
    return Extents(tuple(extent for extent in disjoint(extents) if extent[1] <= segmented.end_of(extent[0])))


def _stub_names(stubs: Plt, slots: dict[int, str], moved: Relocations, functions: dict[int, str]) -> dict[int, str]:
    """The name of each stub, by its address; a stub for a local IFUNC has the name of its resolver."""
    names = {}
    for stub, slot in stubs.stubs.items():
        resolver = moved.resolvers.get(slot)
        name = slots.get(slot, "") if resolver is None else functions.get(resolver, nameless(resolver))
        if name:
            names[stub] = name
    return names
