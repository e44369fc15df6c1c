# SPDX-License-Identifier: LGPL-2.1-or-later
"""Encodes Protocol Buffers, as far as a trace needs it (protobuf.dev/programming-guides/encoding)."""

from __future__ import annotations


def varint(value: int) -> bytes:
    """A number that is not negative as a varint: seven bits a byte, the lowest first."""
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def number(field: int, value: int) -> bytes:
    """A field with a uint64, an enum, or an int32, of which negative numbers have 64 bits."""
    return varint(field << 3) + varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def message(field: int, *parts: bytes) -> bytes:
    """A field with another message, or with bytes."""
    body = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def text(field: int, value: str) -> bytes:
    """A field with text in UTF-8, as the format demands; other characters are replaced."""
    return message(field, value.encode("utf-8", "replace"))
