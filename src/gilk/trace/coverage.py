# SPDX-License-Identifier: LGPL-2.1-or-later
"""How often blocks ran, and so how often lines of the source did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from gilk.values import dataclass

#: The lines, as (file, line), that code between two link-time addresses of a program is of.
LinesOf = Callable[[Path, int, int], Iterable[tuple[str, int]]]


@dataclass(frozen=True, slots=True)
class BlockCount:
    """[start, end), link-time. ``count``: how often it began."""

    start: int
    end: int
    count: int


@dataclass(frozen=True)
class FunctionCoverage:
    """The blocks of a function that were counted, by address; ``path`` is that of its image, which the process has at
    ``low`` to ``high``, ``bias`` above what the file says."""

    path: Path
    low: int
    high: int
    bias: int
    name: str
    start: int
    blocks: tuple[BlockCount, ...]


@dataclass(frozen=True, slots=True)
class SourceCoverage:
    """A file of the source. ``lines``: how often each ran. ``functions``: first line, name, and number of calls."""

    file: str
    lines: dict[int, int]
    functions: list[tuple[int, str, int]]


def by_line(functions: Sequence[FunctionCoverage], lines_of: LinesOf) -> list[SourceCoverage]:
    """The files, by name. A line runs as often as that of its blocks which runs most."""
    found: dict[str, SourceCoverage] = {}

    def source(file: str) -> SourceCoverage:
        return found.setdefault(file, SourceCoverage(file, {}, []))

    for function in functions:
        for block in function.blocks:
            for file, line in lines_of(function.path, block.start, block.end):
                lines = source(file).lines
                lines[line] = max(lines.get(line, 0), block.count)
        first = [block for block in function.blocks if block.start == function.start]
        for file, line in [*lines_of(function.path, function.start, function.start + 1)][:1] if first else ():
            source(file).functions.append((line, function.name, first[0].count))
    return sorted(found.values(), key=lambda each: each.file)
