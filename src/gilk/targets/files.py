# SPDX-License-Identifier: LGPL-2.1-or-later
"""The programs and libraries that a process has mapped.

A file is opened when it is first seen, so that it can be read even when it has been removed; the program headers and
the like are read then, everything else when it is asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from gilk.errors import GilkError
from gilk.image.elf import File, load
from gilk.image.header import PF_X
from gilk.image.model import ElfSymbol, Image
from gilk.targets.base import Loaded
from gilk.targets.exchanged import Extent
from gilk.targets.mapped_file import open_mapped
from gilk.targets.maps import Mapping, link_of, program_of
from gilk.targets.program import path_there

_PAGE = 4096
_MOST_OPEN = 256


class Files:
    """The files that process ``pid`` has mapped. ``descriptors`` are those of the files that are open."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._open: dict[Path, File] = {}
        self._images: dict[Path, Image] = {}
        self._links: dict[Path, str] = {}
        self._called: dict[Path, str] = {}  # see Loaded.called
        self._paths: dict[tuple[int, int, str], Path | None] = {}  # by device, inode and name of the mapped file

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(file.descriptor for file in self._open.values() if file.descriptor >= 0)

    def loaded(self, maps: Iterable[Mapping]) -> tuple[Loaded, ...]:
        """The images in these mappings, main program first; none of a process that is about to end, whose program the
        kernel forgets before its mappings are gone. Files that are not ELF are left out."""
        main = program_of(self._pid)
        if not main:
            return ()
        found: dict[str, Loaded] = {}
        for mapping in maps:
            if not mapping.executable or not mapping.path.startswith("/") or mapping.path in found:
                continue
            if mapping.path.startswith("/memfd:") and mapping.path != main:  # generated code, or gilk's
                continue
            loaded = self._place(mapping, mapping.path == main)
            if loaded:
                found[mapping.path] = loaded
        return tuple(sorted(found.values(), key=lambda image: not image.main))

    def image(self, path: Path) -> Image:
        """The image of the file at ``path``. Raises ImageError."""
        if path not in self._images:
            file = self._open.get(path)
            image = load(path) if file is None or file.descriptor < 0 else file.image()
            called = Path(self._called.get(path, "")).name
            self._images[path] = replace(image, called=called) if called else image
            if file is not None:
                file.close()
        return self._images[path]

    def exported(self, path: Path, name: str) -> ElfSymbol | None:
        """The symbol called ``name`` that the file exports to other images; None if it has none. Raises ImageError."""
        file = self._open.get(path)
        if path in self._images or file is None or file.descriptor < 0:
            symbols = self.image(path).symbols  # a plain search: to index all names takes longer than one look-up
            return next((symbol for symbol in symbols if symbol.name == name and symbol.exported), None)
        return file.exported(name)

    def interpreter(self, path: Path) -> str:
        """The dynamic linker of the program at ``path``; empty for a static program. Raises ImageError."""
        return self._file(path).interpreter

    def mentions(self, path: Path, names: frozenset[str]) -> bool:
        """Whether the file at ``path`` defines or imports a symbol of any of these names. Raises ImageError."""
        file = self._file(path)
        if file.descriptor >= 0:
            return file.mentions(names)
        image = self.image(path)
        return not names.isdisjoint({*image.plt.values(), *image.got.values()}) or any(map(image.named, names))

    def close(self) -> None:
        for file in self._open.values():
            file.close()

    def _file(self, path: Path, descriptor: int = -1) -> File:
        """The file at ``path``; it is read as a whole, and closed, if many files are open. ``descriptor``: an open
        descriptor of it, if not -1. Raises ImageError."""
        if path not in self._open:
            self._open[path] = File(path, descriptor)
            if len(self.descriptors) > _MOST_OPEN:
                self.image(path)
        return self._open[path]

    def _place(self, mapping: Mapping, main: bool) -> Loaded | None:
        path = self._path(mapping, main)
        if path is None:
            return None
        file = self._file(path)
        loads = file.loads
        for segment in loads:
            low = segment.offset & -_PAGE
            if segment.flags & PF_X and low <= mapping.offset < segment.offset + max(segment.size, 1):
                bias = mapping.start - mapping.offset + segment.offset - segment.address
                start, end = loads[0].address, loads[-1].address + loads[-1].size
                link = self._link(path) if main else ""
                called = self._called.get(path, "")
                return Loaded(path, bias, start + bias, end + bias, main, file.soname, link, called)
        return None

    def _link(self, path: Path) -> str:
        if path not in self._links:
            self._links[path] = link_of(self._pid, path)
        return self._links[path]

    def extents(self, mapping: Mapping) -> list[Extent]:
        """The segments of the file of a mapping; empty where it cannot be read."""
        path = self._path(mapping, mapping.path == program_of(self._pid))
        if path is None:
            return []
        return [(each.offset, each.address, bool(each.flags & PF_X)) for each in self._file(path).loads]

    def _path(self, mapping: Mapping, main: bool) -> Path | None:
        """A path by which the mapped file can be read, even from another mount namespace or when it was replaced on
        disk; None if it cannot be read or is not ELF."""
        key = mapping.device, mapping.inode, mapping.path
        if key not in self._paths:
            found = open_mapped(self._pid, mapping, main)
            if found is None:
                return None
            path, descriptor = found
            if path in self._open:  # the path led to another file before
                self._open.pop(path).close()
                self._images.pop(path, None)
            there = path_there(mapping.path)
            self._called.pop(path, None)
            if path.name != Path(there).name:
                self._called[path] = there
            self._paths[key] = None  # stays None if it is no ELF file
            with contextlib.suppress(GilkError):
                self._file(path, descriptor)
                self._paths[key] = path
        return self._paths[key]
