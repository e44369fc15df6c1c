# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds symbols that are kept apart from the program: in separate debug files, and in the compressed .gnu_debugdata.

GDB's manual says where they are: "Debugging Information in Separate Files" and "MiniDebugInfo".
"""

from __future__ import annotations

import lzma
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from gilk import private
from gilk.digest import state_of
from gilk.errors import ImageError
from gilk.image import header as elf
from gilk.image import notes, symbols
from gilk.image.header import Header
from gilk.image.memory import MALFORMED
from gilk.image.source import ByteSource, from_bytes, open_source

ROOT = Path("/usr/lib/debug")
LARGEST_DEBUGDATA = 1 << 28  # in bytes, decompressed


def debug_table(header: Header) -> symbols.SymbolTable | None:
    """The symbol table of the program's debug file, or of its .gnu_debugdata; None if it has neither."""
    for debug in files(header):
        table = symbols.symtab(debug, "debug")
        if table is not None:
            return table
    return _mini(header)


def files(header: Header) -> Iterator[Header]:
    """The debug files that belong to the program, each open until the next one is asked for."""
    for path, check in _candidates(header):
        try:
            with open_source(path) as source:
                debug = elf.parse(source)
                if _belongs(header, debug, check):
                    yield debug
        except ImageError:
            continue


def states(header: Header) -> list[tuple[str, tuple[int, ...] | None]] | None:
    """The paths at which the program's debug file may be, each with the state of the file there, None if there is none.

    Returns None if users other than this one and root can write to such a file: then stat(2) proves nothing about its
    content.
    """
    found: list[tuple[str, tuple[int, ...] | None]] = []
    for path, _ in _candidates(header):
        try:
            file = path.stat()
        except (OSError, ValueError):
            found.append((str(path), None))
            continue
        if not private.only_ours(file):
            return None
        found.append((str(path), state_of(file)))
    return found


def by_build_id(identity: str) -> Path:
    """The path of the debug file with that build id, if it is installed."""
    return ROOT / ".build-id" / identity[:2] / f"{identity[2:]}.debug"


def fetched(identity: str) -> Path:
    """The path at which ``debuginfod-find`` leaves the debug file with that build id (debuginfod_find_debuginfo(3))."""
    place = os.environ.get("DEBUGINFOD_CACHE_PATH")
    if place:
        return Path(place) / identity / "debuginfo"
    home = os.environ.get("XDG_CACHE_HOME") or str(Path(os.environ.get("HOME") or "/nonexistent") / ".cache")
    return Path(home) / "debuginfod_client" / identity / "debuginfo"


def _candidates(header: Header) -> Iterator[tuple[Path, int | None]]:
    """The paths at which a debug file may be, each with the CRC-32 that it must have, or None if its build id is
    compared.
    """
    identity = notes.noted_build_id(header)
    if len(identity) > 2:
        yield by_build_id(identity), None
        yield fetched(identity), None
    name, check = _link(header)
    if name:
        folder = header.source.path.parent
        below_root = [ROOT / folder.relative_to("/")] if folder.is_absolute() else []
        for place in (folder, folder / ".debug", *below_root):
            if place / name != header.source.path:
                yield place / name, check


def _link(header: Header) -> tuple[str, int]:
    """The file name and CRC-32 in .gnu_debuglink; ('', 0) if there is none."""
    section = header.section(".gnu_debuglink")
    try:
        content = header.content(section) if section else b""
        name = content.partition(b"\0")[0]
        (check,) = struct.unpack_from("<I", content, len(name) + 4 & ~3)
    except MALFORMED:
        return "", 0
    # The section names a file, not a path: a path could lead anywhere.
    if not name or b"/" in name or name in (b".", b".."):
        return "", 0
    return name.decode("utf-8", "surrogateescape"), int(check)


def _belongs(header: Header, debug: Header, check: int | None) -> bool:
    """Whether the debug file is that of ``header``: by build id if both have one, otherwise by CRC."""
    ours, theirs = notes.noted_build_id(header), notes.noted_build_id(debug)
    if ours and theirs:
        return ours == theirs
    return check is not None and _crc(debug.source) == check


def _crc(source: ByteSource) -> int:
    value = 0
    for chunk in source.chunks():
        value = zlib.crc32(chunk, value)
    return value


def _mini(header: Header) -> symbols.SymbolTable | None:
    """The table in .gnu_debugdata, an xz-compressed ELF file with only those symbols that .dynsym lacks; None if there
    is none.
    """
    section = header.section(".gnu_debugdata")
    if section is None:
        return None
    try:
        decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=LARGEST_DEBUGDATA)
        data = decompressor.decompress(header.content(section), LARGEST_DEBUGDATA)
        return symbols.symtab(elf.parse(from_bytes(data, header.source.path)), "debug")
    except (*MALFORMED, lzma.LZMAError, EOFError):
        return None
