# SPDX-License-Identifier: LGPL-2.1-or-later
"""The values of integers, strings and character constants, from their text."""

from __future__ import annotations

import re

from gilk.lang.d.tags import SyntaxTag
from gilk.lang.syntax.source import Rejected, Span

_INTEGER = re.compile(r"(0[xX])?([0-9A-Fa-f]*?)([uU]?[lL]{0,2}|[lL]{1,2}[uU])", re.ASCII)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]+)|([abfnrtv\\'\"?]))")
_CONTROL = dict(zip(b"abfnrtv\\'\"?", b"\a\b\f\n\r\t\v\\'\"?", strict=True))
_DIGITS = {8: "01234567", 10: "0123456789", 16: "0123456789abcdefABCDEF"}


def integer(text: str, span: Span) -> tuple[int, str, bool]:
    """The value, the suffix in C's order ('ul', not 'lu'), and whether the integer is decimal. Raises Rejected."""
    found = _INTEGER.fullmatch(text)
    base = 16 if text[:2] in ("0x", "0X") else 8 if text.startswith("0") else 10
    digits = found[2] if found else text[2:] if base == 16 else text
    wrong = next((one for one in digits if one not in _DIGITS[base]), "" if digits else text[-1:])
    if found is None or wrong or not digits:
        raise Rejected(SyntaxTag.D_INT_DIGIT, span, f"constant {text} contains invalid digit {wrong or text[-1:]}")
    significant = digits.lstrip("0") or "0"
    # Python refuses to convert very long integers.
    if len(significant) > 22 or (value := int(significant, base)) >= 1 << 64:
        raise Rejected(SyntaxTag.D_INT_OFLOW, span, f"constant {text[:40]} results in integer overflow")
    suffix = found[3].lower()
    return value, "u" + suffix[:-1] if suffix.endswith("u") else suffix, base == 10 or not value


def unescaped(text: str) -> str:
    """The string that ``text``, without its quotes, stands for. An escape that C does not have stays as it is."""
    return resolved(text).decode("utf-8", "surrogateescape")


def character(text: str, span: Span) -> int:
    """The value of up to eight bytes between the quotes, the first byte the most significant. Raises Rejected."""
    data = resolved(text)
    if not data:
        raise Rejected(SyntaxTag.D_CHR_NULL, span, "empty character constant")
    if len(data) > 8:
        raise Rejected(SyntaxTag.D_CHR_OFLOW, span, "character constant is too long")
    return int.from_bytes(data, "big")


def resolved(text: str) -> bytes:
    """The bytes of ``text`` with its escapes resolved. As in C, a hexadecimal escape takes all hexadecimal digits that
    follow; its last eight bits count.
    """
    return _ESCAPE.sub(_escape, _raw(text))


def _escape(found: re.Match[bytes]) -> bytes:
    octal, hexadecimal, control = found.groups()
    if octal is not None:
        return bytes([int(octal, 8) & 255])
    return bytes([_CONTROL[control[0]] if control is not None else int(hexadecimal, 16) & 255])


def _raw(text: str) -> bytes:
    """The bytes of the file, if it was read with "surrogateescape"; other surrogates do not come from files."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def quoted(value: str) -> str:
    """A string literal with that value."""
    found = []
    for byte in _raw(value):
        plain = 32 <= byte < 127 and byte not in b'"\\'
        found.append(chr(byte) if plain else f"\\{byte:03o}")
    return f'"{"".join(found)}"'
