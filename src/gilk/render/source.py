# SPDX-License-Identifier: LGPL-2.1-or-later
"""Source files with the number of times that each line ran, as text and as JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from gilk.errors import StoreError, UsageError
from gilk.inputs import text_of
from gilk.render.names import readable
from gilk.render.text import cell, plural
from gilk.trace.coverage import SourceCoverage

Json = dict[str, Any]
_MOST: Final = 16 << 20  # the most bytes of a source file
_AROUND: Final = 2  # the number of lines shown before and behind lines that have code
_HEAT: Final = 8  # the width of a bar, in characters; each stands for half of the hits of the next longer one
_TAB: Final = 8


def to_json(sources: Sequence[SourceCoverage], built: float) -> list[Json]:
    """An object for each file, with its lines that have code. ``built``: when the programs were (to_text)."""
    return [_file(source, built) for source in sources]


def to_text(sources: Sequence[SourceCoverage], built: float, limit: int) -> str:
    """The files, those that ran most first, with a bar and a count beside each line that has code; ``limit``: the most
    lines of all, 0 for all. A file that was changed after ``built``, in seconds since 1970, is said to be newer.
    """
    hottest = sorted(sources, key=lambda source: (-max(source.lines.values(), default=0), source.file))
    most = max((max(source.lines.values(), default=0) for source in sources), default=0)
    rows = [row for source in hottest for row in _rows(source, most, built)]
    more = len(rows) - limit if limit else 0
    tail = f"and {plural(more, 'line')} more; --limit 0 shows all\n" if more > 0 else ""
    return "".join(f"{row}\n" for row in (rows[:limit] if more > 0 else rows)) + tail


def _file(source: SourceCoverage, built: float) -> Json:
    text = _text(source.file)
    lines = [{"line": line, "count": count, "text": _line(text, line)} for line, count in sorted(source.lines.items())]
    functions = [{"line": line, "name": name, "calls": calls} for line, name, calls in source.functions]
    newer = _is_newer(source.file, built)
    return {"file": source.file, "there": bool(text), "newer": newer, "functions": functions, "lines": lines}


def _rows(source: SourceCoverage, most: int, built: float) -> Iterator[str]:
    text = _text(source.file)
    ran = sum(count > 0 for count in source.lines.values())
    doubt = "" if text else ": there is no such file here"
    doubt = ": it is newer than the program" if _is_newer(source.file, built) else doubt
    yield f"{cell(readable(source.file))}: {ran} of {plural(len(source.lines), 'line')} ran{doubt}"
    width = max(len(str(most)), len("count"))
    last = 0
    for line in _shown(source, len(text)):
        if last and line != last + 1:
            yield f"{'...':>{width + _HEAT + 9}}"
        last = line
        count = source.lines.get(line)
        bar, number = ("", "") if count is None else (_bar(count, most), str(count))
        shown = cell(_line(text, line).expandtabs(_TAB))
        yield f"{bar:{_HEAT}}  {number:>{width}}  {line:5}  {shown}".rstrip()
    yield ""


def _shown(source: SourceCoverage, length: int) -> list[int]:
    """The lines that have code, and some around them that are among the ``length`` of the file."""
    near = {line + n for line in source.lines for n in range(-_AROUND, _AROUND + 1)}
    return sorted(line for line in near if line in source.lines or 1 <= line <= length)


def _bar(count: int, most: int) -> str:
    """A bar that is the shorter by a letter the more often ``count`` must be doubled to reach ``most``; '' for 0."""
    return "#" * max(_HEAT - (most.bit_length() - count.bit_length()), 1) if count else ""


def _text(file: str) -> list[str]:
    """The lines of a source file; [] if it is not there, or is no text."""
    try:
        text = text_of(Path(file), _MOST)
    except (StoreError, UsageError, ValueError):
        return []
    return text.split("\n") if text is not None else []


def _line(text: Sequence[str], line: int) -> str:
    return text[line - 1] if 1 <= line <= len(text) else ""


def _is_newer(file: str, built: float) -> bool:
    try:
        return os.stat(file).st_mtime > built
    except (OSError, ValueError):
        return False
