# SPDX-License-Identifier: LGPL-2.1-or-later
"""Source lines of addresses, and addresses of source lines (DWARF 5, section 6.2, and versions 2 to 4).

A unit's program is run when an address or a file of it is asked for: all of a large library's would take seconds.
"""

from __future__ import annotations

import bisect
import itertools
import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import NamedTuple

from gilk.image.dwarf.forms import Forms
from gilk.image.dwarf.line_program import LineRow, run
from gilk.image.dwarf.sections import Sections
from gilk.image.encoding import uleb
from gilk.image.memory import MALFORMED
from gilk.values import dataclass

_VERSIONS = range(2, 6)
_LARGE = 0xFFFFFFF0  # of DWARF in its 64-bit format, which compilers make on request
_PATH, _DIRECTORY = 1, 2  # DW_LNCT
_MOST_UNITS, _MOST_FILES, _MOST_ROWS = 1 << 18, 1 << 16, 1 << 23
_SET_ADDRESS = re.compile(rb"\x00\x09\x02(.{8})", re.DOTALL)
_LOOKED_AT = 4  # units in which an address may be


class SourceLine(NamedTuple):
    """``file`` as the compiler was given it, with its directory if that is known."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{PurePosixPath(self.file).name}:{self.line}"


class LinePlace(NamedTuple):
    """``address``, link-time, where the code of a line begins."""

    address: int
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class _LineUnit:
    """[start, end) of .debug_line; ``program`` is where the program begins; ``files`` by their numbers."""

    start: int
    end: int
    program: int
    least: int
    default_statement: bool
    line_base: int
    line_range: int
    lengths: tuple[int, ...]
    files: dict[int, str]


class SourceLines:
    """The line tables of an image."""

    def __init__(self, sections: Sections) -> None:
        self._sections = sections
        self._rows: dict[int, list[LineRow]] = {}
        self._left = _MOST_ROWS

    @cached_property
    def _units(self) -> list[_LineUnit]:
        """Up to the first that is not understood."""
        found: list[_LineUnit] = []
        at = 0
        while len(found) < _MOST_UNITS and (unit := _unit(self._sections, at)) is not None:
            found.append(unit)
            at = unit.end
        return found

    @cached_property
    def _sequences(self) -> list[tuple[int, int]]:
        """Where runs of addresses may begin, each with the number of its unit."""
        starts = [unit.start for unit in self._units]
        found: list[tuple[int, int]] = []
        for match in _SET_ADDRESS.finditer(self._sections.lines):
            number = bisect.bisect_right(starts, match.start()) - 1
            if number >= 0 and match.start() >= self._units[number].program:
                found.append((int.from_bytes(match[1], "little"), number))
        return sorted(found)

    def at(self, address: int) -> SourceLine | None:
        """The line that the instruction there is of; None where nothing is known of it."""
        at = bisect.bisect_right(self._sequences, (address, len(self._units))) - 1
        seen: set[int] = set()
        while at >= 0 and len(seen) < _LOOKED_AT:
            number = self._sequences[at][1]
            if number not in seen:
                seen.add(number)
                if (found := self._line_in(number, address)) is not None:
                    return found
            at -= 1
        return None

    def rows(self, start: int, end: int) -> list[LineRow]:
        """The rows of [start, end), by address, those of one address as they are listed. Files are numbers of the
        unit's own."""
        at = bisect.bisect_right(self._sequences, (start, len(self._units))) - 1
        numbers = {self._sequences[n][1] for n in range(max(0, at - _LOOKED_AT), at + 1)}
        found: list[LineRow] = []
        for number in sorted(numbers):
            rows = self._program(number)
            low = bisect.bisect_left(rows, start, key=lambda row: row.address)
            high = bisect.bisect_left(rows, end, key=lambda row: row.address)
            found += [row for row in rows[low:high] if not row.end]
        return found

    def within(self, start: int, end: int) -> list[SourceLine]:
        """The lines that code of [start, end) is of, the first address's first."""
        first = self.at(start)
        found = {first: None} if first is not None else {}
        at = bisect.bisect_right(self._sequences, (start, len(self._units))) - 1
        numbers = {self._sequences[n][1] for n in range(max(0, at - _LOOKED_AT), at + 1)}
        for number in sorted(numbers):
            rows, files = self._program(number), self._units[number].files
            low = bisect.bisect_left(rows, start, key=lambda row: row.address)
            high = bisect.bisect_left(rows, end, key=lambda row: row.address)
            for at in range(low, high):
                row, empty = rows[at], at + 1 < len(rows) and rows[at + 1].address == rows[at].address
                if row.line and not row.end and not empty:
                    found[SourceLine(files.get(row.file, "?"), row.line)] = None
        return list(found)

    def _line_in(self, number: int, address: int) -> SourceLine | None:
        rows = self._program(number)
        at = bisect.bisect_right(rows, address, key=lambda row: row.address) - 1
        if at < 0 or rows[at].end or not rows[at].line:
            return None
        return SourceLine(self._units[number].files.get(rows[at].file, "?"), rows[at].line)

    def files(self, name: str) -> list[str]:
        """The files that a user may mean by ``name``: a path, or the end of one; '' is all."""
        found = {file for unit in self._units for file in unit.files.values()}
        return sorted(file for file in found if not name or is_meant(name, file))

    def places(self, name: str, line: int) -> list[LinePlace]:
        """Where code of that line begins, by address: each time that another line's ends before it. A line without code
        of its own begins where the next one does."""
        found = [(place, empty) for place, empty in self._places(name) if place.line == line]
        return sorted({place for place, empty in found if not empty} or {place for place, _ in found})

    def lines(self, name: str) -> list[int]:
        """The lines of a file that have code."""
        return sorted({place.line for place, _ in self._places(name)})

    def _places(self, name: str) -> Iterator[tuple[LinePlace, bool]]:
        """The beginnings of all lines of a file, and whether there is no code before the next one."""
        for number, unit in enumerate(self._units):
            meant = {index for index, file in unit.files.items() if is_meant(name, file)}
            if meant:
                yield from self._beginnings(number, meant)

    def _beginnings(self, number: int, meant: set[int]) -> Iterator[tuple[LinePlace, bool]]:
        files, before = self._units[number].files, (-1, -1)
        rows = self._program(number)
        for row, after in itertools.zip_longest(rows, rows[1:]):
            if row.end:
                before = (-1, -1)
                continue
            empty = after is not None and after.address == row.address and not after.end
            if row.file in meant and row.statement and row.line and (row.file, row.line) != before:
                yield LinePlace(row.address, files[row.file], row.line), empty
            before = before if empty else (row.file, row.line)

    def _program(self, number: int) -> list[LineRow]:
        """The rows of a unit, by address."""
        found = self._rows.get(number)
        if found is None:
            unit = self._units[number]
            program = self._sections.lines[unit.program : unit.end]
            most = self._left
            rows = run(program, unit.least, unit.default_statement, unit.line_base, unit.line_range, unit.lengths, most)
            self._left -= len(rows)
            found = self._rows[number] = _in_order(rows)
        return found


def _in_order(rows: list[LineRow]) -> list[LineRow]:
    """Sequences by their beginnings, so that one ends before the next one there begins."""
    ends = [at + 1 for at, row in enumerate(rows) if row.end]
    sequences = [rows[a:b] for a, b in itertools.pairwise([0, *ends])]
    return [row for sequence in sorted(sequences, key=lambda each: each[0].address) for row in sequence]


def is_meant(name: str, file: str) -> bool:
    """Whether ``file`` is that path, or ends in it."""
    return file == name or (file.endswith("/" + name.lstrip("/")) and not name.startswith("/"))


def _unit(sections: Sections, at: int) -> _LineUnit | None:
    try:
        return _header(sections, at)
    except MALFORMED:
        return None


def _header(sections: Sections, at: int) -> _LineUnit | None:
    data = sections.lines
    length, version = struct.unpack_from("<IH", data, at)
    if length >= _LARGE or version not in _VERSIONS or at + 4 + length > len(data):
        return None
    end, place = at + 4 + length, at + 6
    if version >= 5:
        place += 2  # sizes of an address, and of a segment's selector
    (header_length,) = struct.unpack_from("<I", data, place)
    program = place + 4 + header_length
    place += 4
    least, place = data[place], place + (2 if version >= 4 else 1)
    statement, base, span, opcodes = struct.unpack_from("<BbBB", data, place)
    place += 4
    lengths = tuple(data[place : place + opcodes - 1])
    place += opcodes - 1
    files = _listed(sections, place) if version >= 5 else _named(data, place)
    if not span or program > end:
        return None
    return _LineUnit(at, end, program, least, bool(statement), base, span, lengths, files)


def _named(data: bytes, place: int) -> dict[int, str]:
    """The files of versions 2 to 4; directory 0 is the unit's own, which .debug_info has."""
    directories = [""]
    while data[place]:
        stop = data.index(b"\0", place)
        directories.append(data[place:stop].decode("utf-8", "replace"))
        place = stop + 1
    place += 1
    files: dict[int, str] = {}
    while data[place] and len(files) < _MOST_FILES:
        stop = data.index(b"\0", place)
        name = data[place:stop].decode("utf-8", "replace")
        directory, place = uleb(data, stop + 1)
        _, place = uleb(data, place)
        _, place = uleb(data, place)
        files[len(files) + 1] = str(PurePosixPath(directories[directory], name))
    return files


def _listed(sections: Sections, place: int) -> dict[int, str]:
    """The files of version 5, from number 0 on."""
    forms = Forms(replace(sections, info=sections.lines), 0)
    directories, place = _table(forms, sections.lines, place)
    listed, _ = _table(forms, sections.lines, place)
    above = str(directories[0].get(_PATH, "")) if directories else ""
    files: dict[int, str] = {}
    for number, row in enumerate(listed):
        which = row.get(_DIRECTORY, 0)
        folder = str(directories[which].get(_PATH, "")) if isinstance(which, int) and which < len(directories) else ""
        files[number] = str(PurePosixPath(above, folder, str(row.get(_PATH, "?"))))
    return files


def _table(forms: Forms, data: bytes, place: int) -> tuple[list[dict[int, object]], int]:
    columns = []
    count, place = data[place], place + 1
    for _ in range(count):
        content, place = uleb(data, place)
        form, place = uleb(data, place)
        columns.append((content, form))
    size, place = uleb(data, place)
    rows: list[dict[int, object]] = []
    for _ in range(min(size, _MOST_FILES) if columns else 0):
        row: dict[int, object] = {}
        for content, form in columns:
            row[content], place = forms.value(form, 0, place)
        rows.append(row)
    return rows, place
