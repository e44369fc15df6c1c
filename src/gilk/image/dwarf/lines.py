# SPDX-License-Identifier: LGPL-2.1-or-later
"""Source lines of addresses, and addresses of source lines (DWARF 5, section 6.2, and versions 2 to 4).

A unit's program is run when one of its addresses or files is asked for: to run all programs of a large library would
take seconds.
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
from typing import Any, NamedTuple

from gilk.image.dwarf.forms import Forms
from gilk.image.dwarf.kept import as_json, from_json, in_range, kept, rows_from_bytes, rows_to_bytes, text
from gilk.image.dwarf.line_program import LineRow, run
from gilk.image.dwarf.sections import Sections
from gilk.image.encoding import uleb
from gilk.image.memory import MALFORMED
from gilk.values import dataclass

_VERSIONS = range(2, 6)
_LARGE = 0xFFFFFFF0  # lengths from here on mark DWARF in its 64-bit format, which compilers make on request
_PATH, _DIRECTORY = 1, 2  # DW_LNCT
_MOST_UNITS, _MOST_FILES, _MOST_ROWS = 1 << 18, 1 << 16, 1 << 23
_SET_ADDRESS = re.compile(rb"\x00\x09\x02(.{8})", re.DOTALL)
_LOOKED_AT = 4  # the most units in which an address is looked for


class SourceLine(NamedTuple):
    """A line of a file. ``file`` is the name that the compiler was given, with its directory if that is known."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{PurePosixPath(self.file).name}:{self.line}"


class LinePlace(NamedTuple):
    """The link-time ``address`` at which code of a line begins."""

    address: int
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class _LineUnit:
    """A unit: the bytes [start, end) of .debug_line. ``program`` is the offset of its program; ``files`` are
    by number.
    """

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
        """The units, up to the first one that is not understood."""
        own = self._sections
        shared = own.shared.strings if own.shared is not None else b""
        data = own.lines, own.line_strings, own.strings, own.string_offsets, shared
        return kept("line units", data, self._read_units, _units_to_bytes, self._units_from_bytes)

    def _units_from_bytes(self, content: bytes) -> list[_LineUnit]:
        """Raises ValueError."""
        names, rows = from_json(content)
        names = [text(name) for name in names]
        found = [_unit_of(names, row) for row in rows]
        if any(not each.start <= each.program <= each.end <= len(self._sections.lines) for each in found):
            raise ValueError("units")
        return found

    def _read_units(self) -> list[_LineUnit]:
        found: list[_LineUnit] = []
        at = 0
        while len(found) < _MOST_UNITS and (unit := _unit(self._sections, at)) is not None:
            found.append(unit)
            at = unit.end
        return found

    @cached_property
    def _sequences(self) -> list[tuple[int, int]]:
        """The addresses at which sequences of rows may begin, sorted, each with the number of its unit."""
        starts = [unit.start for unit in self._units]
        found: list[tuple[int, int]] = []
        for match in _SET_ADDRESS.finditer(self._sections.lines):
            number = bisect.bisect_right(starts, match.start()) - 1
            if number >= 0 and match.start() >= self._units[number].program:
                found.append((int.from_bytes(match[1], "little"), number))
        return sorted(found)

    def at(self, address: int) -> SourceLine | None:
        """The source line of the instruction at ``address``; None if it is not known."""
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
        """The rows of [start, end), by address; rows of one address are in the order of the program. File numbers are
        those of the row's own unit.
        """
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
        """The lines that code of [start, end) belongs to; that of the first address comes first."""
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
        """The files that ``name`` may mean: it is a path, or the end of one; '' means all."""
        found = {file for unit in self._units for file in unit.files.values()}
        return sorted(file for file in found if not name or is_meant(name, file))

    def places(self, name: str, line: int) -> list[LinePlace]:
        """The places at which code of that line begins, by address: one each time that code of another line ends before
        it. A line without code of its own begins where the next one does.
        """
        found = [(place, empty) for place, empty in self._places(name) if place.line == line]
        return sorted({place for place, empty in found if not empty} or {place for place, _ in found})

    def lines(self, name: str) -> list[int]:
        """The lines of a file that have code, sorted."""
        return sorted({place.line for place, _ in self._places(name)})

    def _places(self, name: str) -> Iterator[tuple[LinePlace, bool]]:
        """The places at which lines of a file begin, each with whether there is no code before the next line begins."""
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
            program, most = self._sections.lines[unit.program : unit.end], self._left
            how = unit.least, unit.default_statement, unit.line_base, unit.line_range, unit.lengths

            def make() -> list[LineRow]:
                return _in_order(run(program, *how, most))

            whole = len(program) <= most  # each row takes a byte or more
            data = (program,) if whole else ()
            found = self._rows[number] = kept(("line rows", how), data, make, rows_to_bytes, rows_from_bytes)
            self._left -= len(found)
        return found


def _units_to_bytes(units: list[_LineUnit]) -> bytes:
    """The units as JSON: the names of files, and a row for each unit, which has them by their numbers."""
    numbers: dict[str, int] = {}
    rows = []
    for each in units:
        own = [[at, numbers.setdefault(name, len(numbers))] for at, name in each.files.items()]
        how = each.least, each.default_statement, each.line_base, each.line_range, each.lengths
        rows.append([each.start, each.end, each.program, *how, own])
    return as_json([list(numbers), rows])


def _unit_of(names: list[str], row: Any) -> _LineUnit:
    """The unit that a row stands for. Raises ValueError and its like."""
    start, end, program, least, statement, base, span, lengths, files = row
    return _LineUnit(
        in_range(start, 0, _LARGE), in_range(end, 0, _LARGE), in_range(program, 0, _LARGE), in_range(least, 0, 255),
        bool(statement), in_range(base, -128, 127), in_range(span, 1, 255), tuple(in_range(n, 0, 255) for n in lengths),
        {in_range(at, 0, _MOST_FILES): names[in_range(n, 0, len(names) - 1)] for at, n in files},
    )  # fmt: skip


def _in_order(rows: list[LineRow]) -> list[LineRow]:
    """The rows, with their sequences sorted by the address at which they begin."""
    ends = [at + 1 for at, row in enumerate(rows) if row.end]
    sequences = [rows[a:b] for a, b in itertools.pairwise([0, *ends])]
    return [row for sequence in sorted(sequences, key=lambda each: each[0].address) for row in sequence]


def is_meant(name: str, file: str) -> bool:
    """Whether ``file`` is the path ``name``, or ends in it."""
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
    """The files of versions 2 to 4, by number. Directory 0 is that of the unit, which only .debug_info tells."""
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
    """The files of version 5, by number, from 0 on."""
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
