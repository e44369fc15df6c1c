# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reports of advice, as text: the records of gilk_report() (native/include/gilk_report.h), printed as printf(3) does.

The process can write anything into a record, so formats and lengths are bounded.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from gilk.trace.drain import Chunk
from gilk.values import dataclass

_REGS = 3  # the class of records that have reports
_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?(hh|h|ll|l|z|j|t)?(pS|[diouxXcspaAeEfFgG%])")
_WIDEST = 1024
_CUT = 0x8000  # a bit in the length of a string: the string was cut off
_FORMAT = 1024  # how many bytes of a format are read
_HALF, _WORD, _SIGNED, _DOUBLE = struct.Struct("<H"), struct.Struct("<Q"), struct.Struct("<q"), struct.Struct("<d")
#: Reads up to so many bytes, which gilk has put into the process, at an address.
Reading = Callable[[int, int], bytes]
#: Names an address of the process's code.
Naming = Callable[[int], str]


class ChangeKind(IntEnum):
    """The changes of groups that a record may ask for: GILK_JOINS, GILK_LEAVES of gilk_report.h."""

    JOIN = 1
    LEAVE = 2


@dataclass(frozen=True, slots=True)
class AspectReport:
    """A report, or a request for a change of groups. ``tick`` is the time stamp counter; ``aspect`` and ``element`` are
    numbers from 0.

    A request has a ``change`` and no text; then ``value`` is a pid, and ``group`` the number of a group, from 0.
    """

    tick: int
    pid: int
    tid: int
    aspect: int
    element: int
    text: str
    change: ChangeKind | None = None
    group: int = 0
    value: int = 0


class _Short(Exception):
    """The record ends before the next argument."""


class ReportReader:
    """Makes reports of records. It reads the format at an address only once. ``name``: for `%pS`."""

    def __init__(self, read: Reading, name: Naming = hex) -> None:
        self._read, self._name = read, name
        self._formats: dict[int, str] = {}

    def reports(self, chunks: list[Chunk]) -> list[AspectReport]:
        """The reports in the chunks, in order of time."""
        return sorted(
            (self._report(chunk, record) for chunk in chunks if chunk.number == _REGS for record in chunk.records),
            key=lambda one: one.tick,
        )

    def _report(self, chunk: Chunk, record: Any) -> AspectReport:
        length = min(int(record["length"]), len(record["text"]))
        content = record["text"][:length].tobytes().ljust(16, b"\0")
        at, whose = _WORD.unpack_from(content, 0)[0], _WORD.unpack_from(content, 8)[0]
        who, kind = chunk.identity, whose >> 16 & 0xFF
        told = int(record["tsc"]), who.pid, who.tid, whose & 0xFF, whose >> 8 & 0xFF
        if kind in set(ChangeKind):
            value = int.from_bytes(content[16:24], "little")
            return AspectReport(*told, "", ChangeKind(kind), whose >> 24 & 0xFF, value)
        return AspectReport(*told, printed(self._format(at), content[16:length], self._name))

    def _format(self, at: int) -> str:
        if at not in self._formats:
            self._formats[at] = self._read(at, _FORMAT).split(b"\0", 1)[0].decode("utf-8", "backslashreplace")
        return self._formats[at]


def printed(text: str, content: bytes, name: Naming = hex) -> str:
    """Print ``content`` by the printf(3) format ``text``, in which `%pS` is the name of an address, as in the kernel's
    printk(); if the arguments end early, "..." stands for the rest."""
    arguments = _Arguments(content, name)
    parts, last = list[str](), 0
    for found in _CONVERSION.finditer(text):
        parts.append(text[last : found.start()])
        last = found.end()
        try:
            parts.append(arguments.converted(found))
        except _Short:
            return "".join(parts).removesuffix("...") + "..."
    return "".join((*parts, text[last:]))


class _Arguments:
    def __init__(self, content: bytes, name: Naming) -> None:
        self._content, self._name, self._at = content, name, 0

    def _next(self, form: struct.Struct) -> int | float:
        if self._at + form.size > len(self._content):
            raise _Short
        (value,) = form.unpack_from(self._content, self._at)
        self._at += form.size
        assert isinstance(value, int | float)
        return value

    def _text(self) -> str:
        said = int(self._next(_HALF))
        size = said & ~_CUT
        content = self._content[self._at : self._at + size]
        self._at += size
        if len(content) < size:
            raise _Short
        return content.decode("utf-8", "backslashreplace") + ("..." if said & _CUT else "")

    def _given(self, text: str | None) -> int | None:
        """A width or a precision; None if there is none."""
        if text is None:
            return None
        number = int(self._next(_SIGNED)) if text == "*" else int(text or 0)
        return max(-_WIDEST, min(number, _WIDEST))

    def converted(self, found: re.Match[str]) -> str:
        letter = found[5]
        if letter == "%":
            return "%"
        width, precision = self._given(found[2]), self._given(found[3])
        flags = found[1] + ("-" if width is not None and width < 0 else "")
        form = f"%{flags}{'' if width is None else abs(width)}{'' if precision is None else f'.{abs(precision)}'}"
        if letter == "s":
            return (form + "s") % self._text()
        if letter == "pS":
            return self._name(int(self._next(_WORD)))
        if letter == "p":
            return f"{int(self._next(_WORD)):#x}"
        if letter == "c":
            return (form.split(".")[0] + "c") % chr(int(self._next(_WORD)) & 0xFF)
        if letter in "eEfFgGaA":
            return (form + (letter if letter not in "aA" else "g")) % self._next(_DOUBLE)
        signed = letter in "di"
        return (form + ("d" if letter in "diu" else letter)) % int(self._next(_SIGNED if signed else _WORD))
