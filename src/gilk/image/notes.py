# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads build ids, by which debug files and findings kept in caches are matched with programs."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gilk.image.header import PT_NOTE, SHT_NOTE, Header
from gilk.image.memory import MALFORMED

NT_GNU_BUILD_ID = 3
LONGEST_NOTES = 1 << 22  # in bytes, all notes together


def build_id(header: Header) -> str:
    """The hex digits of the build id; if there is no such note, ``sha256-`` and the digest of the whole content."""
    return noted_build_id(header) or "sha256-" + digest(header)


def noted_build_id(header: Header) -> str:
    """The hex digits in the NT_GNU_BUILD_ID note; '' if there is none."""
    for notes in _tables(header):
        for owner, kind, content in each(notes):
            if owner == b"GNU\0" and kind == NT_GNU_BUILD_ID and content:
                return content.hex()
    return ""


def digest(header: Header) -> str:
    import hashlib  # imported here: most files have a build id, and need not wait for it

    state = hashlib.sha256()
    for chunk in header.source.chunks():
        state.update(chunk)
    return state.hexdigest()


def _tables(header: Header) -> Iterator[bytes]:
    """The tables of notes, those of segments first. A debug file's segments have no content, but its note
    sections do.
    """
    places = [(p.offset, p.file_size) for p in header.programs if p.kind == PT_NOTE]
    places += [(s.offset, s.size) for s in header.sections if s.kind == SHT_NOTE]
    room = LONGEST_NOTES
    for offset, size in places:
        room -= size
        if room < 0:
            return
        try:
            yield header.source.read(offset, size)
        except MALFORMED:
            continue


def each(table: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """The notes of a table, as (owner, type, content).

    This reads property notes, which are aligned to 8 bytes, too: their sizes are multiples of 8.
    """
    offset = 0
    while offset + 12 <= len(table):
        owner_size, size, kind = struct.unpack_from("<III", table, offset)
        start = offset + 12 + (owner_size + 3 & ~3)
        yield table[offset + 12 : offset + 12 + owner_size], kind, table[start : start + size]
        offset = start + (size + 3 & ~3)
