# SPDX-License-Identifier: LGPL-2.1-or-later
"""Points by lines of the source, ``[IMAGE:]FILE:LINE``, and the source lines of code."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import Function
from gilk.digest import state_of
from gilk.errors import ImageError, UsageError
from gilk.image.elf import load
from gilk.image.model import Image
from gilk.image.stripped import remark
from gilk.splice import points
from gilk.splice.points import Point

if TYPE_CHECKING:
    from gilk.image.dwarf.lines import LinePlace, SourceLine, SourceLines

_NEAR = 3


def state(path: Path) -> tuple[int, ...]:
    """A value that changes when the file is changed or replaced; () if there is no file."""
    try:
        return state_of(path.stat())
    except OSError:
        return ()


def source_lines(path: Path) -> SourceLines | None:
    """The line tables of a program, or of its debug file; None if it has none."""
    return _source_lines(path, state(path))


@lru_cache(maxsize=16)
def _source_lines(path: Path, _state: tuple[int, ...]) -> SourceLines | None:
    from gilk.image.dwarf import sections  # a late import: few commands need line tables
    from gilk.image.dwarf.lines import SourceLines

    try:
        found = sections.read(path)
    except ImageError:
        return None
    return SourceLines(found) if found is not None and found.lines else None


def doubt(path: Path, content: str) -> str:
    """The reason why source lines of the image at ``path`` are not those of the image with the digest ``content``
    (Image.content, in hexadecimal); '' if they are."""
    try:
        same = load(path).content.hex() == content
    except ImageError as error:
        return f"nothing is known of the lines of {path} any more: {error.message}"
    return "" if same else f"{path} has changed since the run, and so may its lines have"


def line_of(path: Path, address: int) -> SourceLine | None:
    """The source line of a link-time address; None where it is not known."""
    table = source_lines(path)
    return table.at(address) if table is not None else None


def has_line(path: Path, file: str, line: int) -> bool:
    """Whether there is code of that line of the source."""
    table = source_lines(path)
    return table is not None and bool(table.places(file, line))


def at_line(image: Image, analysis: Analysis, file: str, line: int) -> Iterator[tuple[Function, Point]]:
    """The points where code of a line begins, in all functions: a line may begin at several places, and a file may be
    included by several others, or inlined.

    Raises UsageError `no-line-table`, `no-such-line`, and `not-an-instruction` if control reaches none of the places.
    """
    missed: UsageError | None = None
    any_found = False
    for place in _places(image, file, line):
        span = image.span_at(place.address)
        if span is None:
            continue
        function = analysis.function(span)
        try:
            yield function, _point(image, analysis, function, place)
            any_found = True
        except UsageError as error:
            missed = error
    if not any_found:
        raise missed or UsageError("no-such-line", f"no function of {image.name} has code of {file}:{line}")


def _point(image: Image, analysis: Analysis, function: Function, place: LinePlace) -> Point:
    """The point at a place where code of a line begins. Raises UsageError `not-an-instruction`."""
    (point,) = points.points(image, analysis, function, f"+{place.address - function.start:#x}")
    return replace(point, where=f"{point.where} ({PurePosixPath(place.file).name}:{place.line})")


def _places(image: Image, file: str, line: int) -> list[LinePlace]:
    table = source_lines(image.path)
    if table is None:
        hint = "; ".join(remark({image.name: [span.name for span in image.spans]}))
        hint = hint or "compile it with -g, or install its debug symbols"
        raise UsageError("no-line-table", f"nothing is known of the source lines of {image.name}", hint)
    found = table.places(file, line)
    if not found:
        raise _unknown(image, table, file, line)
    return found


def _unknown(image: Image, table: SourceLines, file: str, line: int) -> UsageError:
    if not table.files(file):
        known = {PurePosixPath(each).name: each for each in table.files("")}
        near = difflib.get_close_matches(PurePosixPath(file).name, known, _NEAR)
        hint = f"near names: {', '.join(near)}" if near else ""
        return UsageError("no-such-line", f"{image.name} has no source file {file!r}", hint)
    lines = sorted(sorted(table.lines(file), key=lambda each: (abs(each - line), each))[:_NEAR])
    hint = f"lines near it that have code: {', '.join(map(str, lines))}" if lines else ""
    return UsageError("no-such-line", f"{image.name} has no code of {file}:{line}", hint)
