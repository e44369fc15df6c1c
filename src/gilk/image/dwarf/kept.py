# SPDX-License-Identifier: LGPL-2.1-or-later
"""Keeps findings about debug information between runs, by a digest of all the bytes that they follow from and of the
code that finds them.

The sections are read each time, since nothing else proves that they are the same; to read and digest them takes a tenth
of the time that it takes to understand them. Findings are JSON or plain numbers, and checked when they are read: one
that is not as it was written is found anew.
"""

from __future__ import annotations

import functools
import json
import sys
from array import array
from collections.abc import Callable
from typing import Any, TypeVar

from gilk.cache.blobs import load_blob, store_blob
from gilk.cache.key import made_of, package_files
from gilk.digest import digest
from gilk.image.dwarf.line_program import LineRow
from gilk.version import VERSION

_KIND = "dwarf"
_WORTH = 1 << 16  # the least number of bytes about which findings are kept: fewer are understood in milliseconds
_WRONG = (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError, AttributeError)
_COLUMNS = "QIIIB"  # of a row: address, file, line, column, and whether it is a statement and an end

_T = TypeVar("_T")


def kept(
    what: object, data: tuple[bytes, ...], make: Callable[[], _T], encode: Callable[[_T], bytes],
    decode: Callable[[bytes], _T],
) -> _T:  # fmt: skip
    """The finding ``what`` about ``data``: from the cache, or else what ``make`` returns, which is kept then.
    ``decode`` may raise ValueError and its like. Raises as ``make`` does.
    """
    if sum(map(len, data)) < _WORTH:
        return make()
    key = _key(what, data)
    content = load_blob(_KIND, key)
    if content is not None:
        try:
            return decode(content)
        except _WRONG:
            pass
    made = make()
    store_blob(_KIND, key, encode(made))
    return made


def _key(what: object, data: tuple[bytes, ...]) -> bytes:
    state = digest(_reader() + repr((what, [len(part) for part in data])).encode())
    for part in data:
        state.update(part)
    return state.digest()


@functools.cache
def _reader() -> bytes:
    return made_of((VERSION, sys.byteorder), package_files("image"))


def as_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def from_json(content: bytes) -> Any:
    """Raises ValueError."""
    return json.loads(content)


def in_range(value: Any, low: int, high: int) -> int:
    """The value, if it is an integer from ``low`` to ``high``. Raises ValueError."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(value)
    return value


def text(value: Any) -> str:
    """The value, if it is a text. Raises ValueError."""
    if type(value) is not str:
        raise ValueError(value)
    return value


def rows_to_bytes(rows: list[LineRow]) -> bytes:
    """The rows, column after column; nothing if a number does not fit."""
    columns = (
        [row.address for row in rows], [row.file for row in rows], [row.line for row in rows],
        [row.column for row in rows], [row.statement | row.end << 1 for row in rows],
    )  # fmt: skip
    try:
        return b"".join(array(kind, column).tobytes() for kind, column in zip(_COLUMNS, columns, strict=True))
    except OverflowError:
        return b"?"


def rows_from_bytes(content: bytes) -> list[LineRow]:
    """Raises ValueError."""
    arrays = [array(kind) for kind in _COLUMNS]
    count, rest = divmod(len(content), sum(each.itemsize for each in arrays))
    if rest:
        raise ValueError("rows")
    at = 0
    for each in arrays:
        each.frombytes(content[at : at + count * each.itemsize])
        at += count * each.itemsize
    addresses, files, lines, columns, flags = arrays
    found = zip(addresses, files, lines, (f & 1 > 0 for f in flags), (f & 2 > 0 for f in flags), columns, strict=True)
    return list(map(LineRow._make, found))
