# SPDX-License-Identifier: LGPL-2.1-or-later
"""Raw bytes in hexadecimal: for tracemem(), structures and arrays, and strings with the option rawbytes."""

from __future__ import annotations

_ROW = 16
_HEADER = b"\n" + b" " * 11 + b"".join(b"  %x" % column for column in range(_ROW)) + b"  0123456789abcdef\n"


def hexdump(data: bytes) -> bytes:
    """The lines of a dump; b'' for no bytes."""
    rows = (_row(at, data[at : at + _ROW]) for at in range(0, len(data), _ROW))
    return _HEADER + b"".join(rows) if data else b""


def _row(at: int, data: bytes) -> bytes:
    numbers = b"".join(b" %02x" % byte for byte in data).ljust(3 * _ROW)
    seen = bytes(byte if ord(" ") <= byte <= ord("~") else ord(".") for byte in data)
    return b"     %5x:" % at + numbers + b"  " + seen + b"\n"


def as_text(data: bytes) -> bytes | None:
    """The text in an array of characters: printable, and after the first NUL nothing but NULs. None for other data."""
    text = data.rstrip(b"\0")
    printable = all(0x20 <= byte < 0x7F or 0x07 <= byte <= 0x0D for byte in text)
    return text if text and printable else None
