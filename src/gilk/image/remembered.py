# SPDX-License-Identifier: LGPL-2.1-or-later
"""What was found out about an ELF file: as values, and kept from one run to the next while the file is the same.

To read the symbols and frames of a C library takes fifty milliseconds, and ten when they are kept. They are kept as
plain values in marshal's form, which is fast; who could put anything else there could change our code as well
(image/cache.py). What a file is known by is what stat(2) says of it and of the files that could be its debug file, and
a sum of what it says: who writes by way of a mapping need not change what stat(2) says, on tmpfs for one.
"""

from __future__ import annotations

import functools
import marshal
import sys
import zlib
from collections.abc import Iterable
from contextlib import suppress

from gilk.digest import stamp
from gilk.image import debug
from gilk.image.blobs import load_blob, store_blob
from gilk.image.header import SHT_STRTAB, SHT_SYMTAB, Header
from gilk.image.memory import MALFORMED
from gilk.image.model import Frame, Segment, Span, Symbol, SymbolKind
from gilk.image.provenance import package_files
from gilk.values import dataclass

_KIND = "images"
_WORTH = 1000  # symbols and frames: to read fewer takes a few milliseconds


@dataclass(frozen=True)
class Contents:
    """Those fields of an Image that take long to find."""

    build_id: str
    static: bool
    interpreter: str
    needed: tuple[str, ...]
    soname: str
    symbols: tuple[Symbol, ...]
    frames: tuple[Frame, ...]
    spans: tuple[Span, ...]
    plt: dict[int, str]
    got: dict[int, str]
    relative: dict[int, int]
    reserved: tuple[tuple[int, int, str], ...]


def key(header: Header, segments: Iterable[Segment]) -> bytes:
    """Empty for what is no file."""
    state = header.source.state
    if state is None:
        return b""
    return repr((state, _sum(header, segments), debug.states(header), sys.hexversion)).encode() + _reader()


def _sum(header: Header, segments: Iterable[Segment]) -> int:
    """Of what is loaded, and of the tables that are read besides."""
    value = zlib.crc32(repr(header.sections).encode())
    for segment in segments:
        value = zlib.crc32(segment.data, value)
    for section in header.sections:
        if not section.loaded and (section.kind in (SHT_SYMTAB, SHT_STRTAB) or section.name == ".gnu_debugdata"):
            with suppress(*MALFORMED):
                value = zlib.crc32(header.content(section), value)
    return value


@functools.cache
def _reader() -> bytes:
    return stamp(package_files("image"))


def recall(key: bytes) -> Contents | None:
    content = load_blob(_KIND, key) if key else None
    if content is None:
        return None
    try:
        values = marshal.loads(content)
        kinds = {str(kind): kind for kind in SymbolKind}
        symbols = [Symbol(name, at, size, kinds[kind], *rest) for name, at, size, kind, *rest in values["symbols"]]
        frames, spans = map(Frame._make, values["frames"]), map(Span._make, values["spans"])
        return Contents(**values | {"symbols": tuple(symbols), "frames": tuple(frames), "spans": tuple(spans)})
    except (ValueError, TypeError, EOFError, KeyError):
        return None


def keep(key: bytes, contents: Contents) -> None:
    if not key or len(contents.symbols) + len(contents.frames) < _WORTH:
        return
    values = dict(vars(contents))
    values["symbols"] = [(*symbol[:3], str(symbol.kind), *symbol[4:]) for symbol in contents.symbols]
    values["frames"], values["spans"] = list(map(tuple, contents.frames)), list(map(tuple, contents.spans))
    store_blob(_KIND, key, marshal.dumps(values))
