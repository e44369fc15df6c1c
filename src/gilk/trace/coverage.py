# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counts how often lines of the source ran, from the counts of blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from gilk.errors import StoreError
from gilk.values import dataclass

#: Returns the source lines, as (file, line), of the code between two link-time addresses of a program.
LinesOf = Callable[[Path, int, int], Iterable[tuple[str, int]]]


@dataclass(frozen=True, slots=True)
class BlockCount:
    """The block at the link-time addresses [start, end). ``count`` is the number of times that it began."""

    start: int
    end: int
    count: int


@dataclass(frozen=True)
class FunctionCoverage:
    """The blocks of a function that were counted, by address. ``path`` is that of its image, which the process has
    mapped from ``low`` to ``high``, ``bias`` above the addresses of the file. ``content``: the image's digest
    (Image.content), in hexadecimal.
    """

    path: Path
    low: int
    high: int
    bias: int
    name: str
    start: int
    blocks: tuple[BlockCount, ...]
    content: str = ""


@dataclass(frozen=True, slots=True)
class SourceCoverage:
    """The coverage of a source file. ``lines``: the number of times that each line ran. ``functions``: first line,
    name, and number of calls of each.
    """

    file: str
    lines: dict[int, int]
    functions: list[tuple[int, str, int]]


def by_line(functions: Sequence[FunctionCoverage], lines_of: LinesOf) -> list[SourceCoverage]:
    """The coverage of the source files, by name. A line ran as often as the one of its blocks that ran most often."""
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


def to_json(functions: Iterable[FunctionCoverage]) -> list[dict[str, Any]]:
    return [
        {
            **vars(each),
            "path": str(each.path),
            "blocks": [[block.start, block.end, block.count] for block in each.blocks],
        }
        for each in functions
    ]


def from_json(rows: Any) -> tuple[FunctionCoverage, ...]:
    """The functions that to_json() gave. Raises StoreError `bad-trace` for anything else."""
    types = {"path": Path, "low": int, "high": int, "bias": int, "name": str, "start": int, "content": str}
    try:
        found = tuple(_function(**row) for row in rows)
        assert all(isinstance(getattr(each, name), kind) for each in found for name, kind in types.items())
    except (TypeError, ValueError, AssertionError) as error:
        raise StoreError("bad-trace", f"its counts of blocks are not valid: {error}") from error
    return found


def _function(path: str, blocks: Iterable[Sequence[int]], **rest: Any) -> FunctionCoverage:
    counted = tuple(BlockCount(*block) for block in blocks)
    assert all(type(n) is int for block in counted for n in (block.start, block.end, block.count))
    return FunctionCoverage(path=Path(path), blocks=counted, **rest)
