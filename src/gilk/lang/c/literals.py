# SPDX-License-Identifier: LGPL-2.1-or-later
"""Literals of C for any bytes."""

from __future__ import annotations


def literal(data: bytes) -> str:
    """The bytes as a literal, with escapes of three octal digits, so that no digit after them belongs to them."""
    return '"' + "".join(f"\\{byte:03o}" if _is_special(byte) else chr(byte) for byte in data) + '"'


def quoted(text: str) -> str:
    """The UTF-8 bytes of the text as a literal, NULs included."""
    return literal(text.encode("utf-8", "surrogateescape"))


def _is_special(byte: int) -> bool:
    return byte < 0x20 or byte > 0x7E or byte in b'"\\?'
