# SPDX-License-Identifier: LGPL-2.1-or-later
"""Findings about an ELF file, which are kept from one run to the next while the file is the same.

To read the symbols and frames of a C library takes fifty milliseconds, and ten if they are kept. They are kept as plain
values in marshal's format, which is fast, but whose reader a hostile file could crash: so only the user and root can
put a file there (private.py).

A file is recognised by a digest of all that is read of it, computed anew each time. stat(2) proves nothing, since the
owner can set any times, or write by way of a mapping, which on tmpfs changes none of them. The bytes are read once, for
the digest and for the values, so that the content cannot change in between. Only a debug file, of which nothing but the
symbols is read, is recognised by stat(2), and only if nobody but the user and root can write to it.
"""

from __future__ import annotations

import functools
import marshal
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from gilk.cache.blobs import load_blob, store_blob
from gilk.cache.key import made_of, package_files
from gilk.digest import digest
from gilk.image import debug, dynamic
from gilk.image.header import SHT_STRTAB, SHT_SYMTAB, Header
from gilk.image.memory import MALFORMED
from gilk.image.model import ElfSymbol, FrameDescription, FunctionSpan, LoadSegment, SymbolKind
from gilk.values import dataclass
from gilk.version import VERSION

if TYPE_CHECKING:
    from hashlib import blake2b

_KIND = "images"
_WORTH = 1000  # the least number of symbols and frames worth keeping: to read fewer takes a few milliseconds


@dataclass(frozen=True)
class CachedFields:
    """The fields of an Image that take long to compute."""

    build_id: str
    static: bool
    interpreter: str
    needed: tuple[str, ...]
    soname: str
    symbols: tuple[ElfSymbol, ...]
    frames: tuple[FrameDescription, ...]
    spans: tuple[FunctionSpan, ...]
    plt: dict[int, str]
    got: dict[int, str]
    relative: dict[int, int]
    symbolic: dict[int, str]
    reserved: tuple[tuple[int, int, str], ...]
    unwinding: tuple[int, int]
    digest: bytes = b""  # the digest of the whole image (`Image.content`)


class Once:
    """The file of a header, each part of which is read once: reading a part again returns the same bytes.

    ``key`` identifies the file's findings in the cache. It is empty if they are not to be kept: if the source is no
    file, if the file was changed so recently that it may change again within a tick of the clock, or if others can
    write to its debug file.
    """

    def __init__(self, header: Header, segments: Iterable[LoadSegment]) -> None:
        self._file = header.source
        self._parts: dict[tuple[int, int], bytes] = {}
        self.header = replace(header, source=replace(self._file, fetch=self._fetch))
        self.key = self._key(segments)
        self._known = len(self._parts)

    @property
    def is_covered(self) -> bool:
        """Whether the key covers all parts of the file that were read."""
        return len(self._parts) == self._known

    def _fetch(self, offset: int, size: int) -> bytes:
        if (offset, size) not in self._parts:
            self._parts[offset, size] = self._file.fetch(offset, size)
        return self._parts[offset, size]

    def _key(self, segments: Iterable[LoadSegment]) -> bytes:
        state, states = self._file.state, debug.states(self.header)
        content = content_of(self.header, segments), dynamic.interpreter(self.header)
        if state is None or states is None:
            return b""
        return repr((state, content, states, sys.hexversion)).encode() + _reader()


def content_of(header: Header, segments: Iterable[LoadSegment]) -> bytes:
    """A digest of what is loaded, and of the tables that are read besides."""
    shape = (header.position_independent, header.entry, header.programs, header.sections)
    state = digest(repr(shape).encode())
    for segment in segments:
        _add(state, segment.data)
    for number in _besides(header):
        with suppress(*MALFORMED):
            _add(state, header.content(header.sections[number]), number)
    return state.digest()


def _add(state: blake2b, data: bytes, number: int = 0) -> None:
    state.update(b"%d,%d;" % (number, len(data)))
    state.update(data)


def _besides(header: Header) -> list[int]:
    """The numbers of the sections that are read though they are not loaded: tables of symbols with their names, and
    others by name.
    """
    found = set()
    for number, section in enumerate(header.sections):
        if section.kind == SHT_SYMTAB:
            found |= {number, section.link}
        if section.kind == SHT_STRTAB or section.name in (".gnu_debugdata", ".gnu_debuglink"):
            found.add(number)
    return sorted(n for n in found if n < len(header.sections) and not header.sections[n].loaded)


@functools.cache
def _reader() -> bytes:
    return made_of(VERSION, package_files("image"))


def recall(key: bytes) -> CachedFields | None:
    content = load_blob(_KIND, key) if key else None
    if content is None:
        return None
    try:
        values = marshal.loads(content)
        kinds = {str(kind): kind for kind in SymbolKind}
        symbols = [ElfSymbol(name, at, size, kinds[kind], *rest) for name, at, size, kind, *rest in values["symbols"]]
        frames, spans = map(FrameDescription._make, values["frames"]), map(FunctionSpan._make, values["spans"])
        return CachedFields(**values | {"symbols": tuple(symbols), "frames": tuple(frames), "spans": tuple(spans)})
    except (ValueError, TypeError, EOFError, KeyError):
        return None


def keep(once: Once, contents: CachedFields) -> None:
    """Keep ``contents``, which must have its digest."""
    values = dict(vars(contents))
    values["symbols"] = [(*symbol[:3], str(symbol.kind), *symbol[4:]) for symbol in contents.symbols]
    values["frames"], values["spans"] = list(map(tuple, contents.frames)), list(map(tuple, contents.spans))
    store_blob(_KIND, once.key, marshal.dumps(values))


def is_worth(once: Once, contents: CachedFields) -> bool:
    return bool(once.key) and once.is_covered and len(contents.symbols) + len(contents.frames) >= _WORTH
