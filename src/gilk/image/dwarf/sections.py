# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads the sections of debug information: those of the program, of its debug file, and of the file that
several share.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from gilk.errors import ImageError
from gilk.image import debug, notes
from gilk.image import header as elf
from gilk.image.header import Header
from gilk.image.memory import MALFORMED
from gilk.image.source import LARGEST_READ, from_bytes, open_source
from gilk.values import dataclass

_COMPRESSED, _ZLIB = 0x800, 1
_CHDR = struct.Struct("<IIQQ")
_LARGEST = 1 << 30  # the most bytes of one section, decompressed


@dataclass(frozen=True)
class Sections:
    """The contents of the sections. ``shared``: those that dwz took out of several files (DWARF 5, section 7.3.6), or
    None.
    """

    path: Path
    info: bytes
    abbrev: bytes
    strings: bytes
    line_strings: bytes
    string_offsets: bytes
    shared: Sections | None = None
    lines: bytes = b""
    addresses: bytes = b""
    ranges: bytes = b""
    range_lists: bytes = b""
    locations: bytes = b""
    location_lists: bytes = b""

    @property
    def of_entries(self) -> tuple[bytes, ...]:
        """The bytes that findings about entries follow from, without line tables."""
        own = (
            *(self.info, self.abbrev, self.strings, self.line_strings, self.string_offsets, self.addresses),
            *(self.ranges, self.range_lists, self.locations, self.location_lists),
        )
        return own if self.shared is None else (*own, *self.shared.of_entries)


def read(path: Path) -> Sections | None:
    """The sections for the program at ``path``, from it or from its debug file; None if there are none. Raises
    ImageError if there is no program.
    """
    with open_source(path) as source:
        head = elf.parse(source)
        if head.section(".debug_info") is not None:
            return _sections(head)
        for other in debug.files(head):
            if other.section(".debug_info") is not None:
                return _sections(other)
    return None


def read_bytes(data: bytes, path: Path) -> Sections | None:
    """The sections in the bytes of a file, whose name is ``path``; None if it has none. Other files are not
    looked for.
    """
    head = elf.parse(from_bytes(data, path))
    return _sections(head) if head.section(".debug_info") is not None else None


def _sections(head: Header, shared: bool = False) -> Sections | None:
    names = (".debug_info", ".debug_abbrev", ".debug_str", ".debug_line_str", ".debug_str_offsets", ".debug_line")
    about_code = (".debug_addr", ".debug_ranges", ".debug_rnglists", ".debug_loc", ".debug_loclists")
    try:
        info, abbrev, strings, line_strings, offsets, lines = (_content(head, name) for name in names)
        code = [_content(head, name) for name in about_code]
    except (*MALFORMED, zlib.error):
        return None
    if not info or not abbrev:
        return None
    other = None if shared else _shared(head)
    path = head.source.path
    return Sections(path, info, abbrev, strings, line_strings, offsets, other, lines, *code)


def _content(head: Header, name: str) -> bytes:
    section = head.section(name)
    if section is None:
        return b""
    data = head.content(section)
    if not section.flags & _COMPRESSED:
        return data
    how, _, size, _ = _CHDR.unpack_from(data)
    if how != _ZLIB or size > min(_LARGEST, LARGEST_READ):
        raise ImageError("elf-malformed", f"{head.source.path}: {name} is compressed with an unknown method")
    return zlib.decompressobj().decompress(data[_CHDR.size :], size) if size else b""  # 0 would be no limit


def _shared(head: Header) -> Sections | None:
    """The sections of the file that .gnu_debugaltlink names by a path and a build id; None if there is none."""
    section = head.section(".gnu_debugaltlink")
    if section is None:
        return None
    name, _, identity = head.content(section).partition(b"\0")
    places = [debug.by_build_id(identity.hex())]
    if name:
        places.append(head.source.path.parent / name.decode("utf-8", "surrogateescape"))
    for place in places:
        try:
            with open_source(place) as source:
                other = elf.parse(source)
                if notes.noted_build_id(other) == identity.hex():
                    return _sections(other, shared=True)
        except ImageError:
            continue
    return None
