# SPDX-License-Identifier: LGPL-2.1-or-later
"""Places that a program's author has marked: the notes of <sys/sdt.h>, which systemtap's wiki describes.

https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from gilk.image import header, notes
from gilk.image.memory import MALFORMED
from gilk.image.source import from_bytes, open_source
from gilk.values import dataclass

_SECTION, _BASE = ".note.stapsdt", ".stapsdt.base"
_OWNER, _KIND = b"stapsdt\0", 3
_MOST = 1 << 24  # in bytes, all notes together


@dataclass(frozen=True, slots=True)
class UsdtMarker:
    """A nop at ``address`` that stands for probe ``name``. ``semaphore`` is the address of a 16-bit counter of
    listeners, 0 if there is none. Both are link-time. ``arguments``: operands in assembler's syntax, each with its
    size.
    """

    provider: str
    name: str
    address: int
    semaphore: int
    arguments: str


def marks(path: Path) -> tuple[UsdtMarker, ...]:
    """The marks of the file at ``path``, in the order of the file; broken ones are left out. Raises ImageError as
    elf.load() does.
    """
    with open_source(path) as source:
        return _marks(header.parse(source))


def marks_in(data: bytes, path: Path) -> tuple[UsdtMarker, ...]:
    """The marks in the bytes of a file; ``path`` is its name. Raises ImageError as elf.load() does."""
    return _marks(header.parse(from_bytes(data, path)))


def _marks(head: header.Header) -> tuple[UsdtMarker, ...]:
    section, base = head.section(_SECTION), head.section(_BASE)
    if section is None or section.size > _MOST:
        return ()
    try:
        content = head.content(section)
    except MALFORMED:
        return ()
    return tuple(_read(content, 0 if base is None else base.address))


def _read(content: bytes, base: int) -> Iterator[UsdtMarker]:
    for owner, kind, described in notes.each(content):
        if owner == _OWNER and kind == _KIND and len(described) >= 24:
            address, noted, semaphore = struct.unpack_from("<QQQ", described)
            moved = base - noted if base and noted else 0  # a tool that prelinks files may have moved the code
            provider, name, arguments = _strings(described[24:])
            if provider and name:
                yield UsdtMarker(provider, name, address + moved, semaphore and semaphore + moved, arguments)


def _strings(described: bytes) -> tuple[str, str, str]:
    parts = [part.decode("utf-8", "replace") for part in described.split(b"\0")]
    provider, name, arguments = (*parts, "", "", "")[:3]
    return provider, name, arguments
