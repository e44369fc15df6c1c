# SPDX-License-Identifier: LGPL-2.1-or-later
"""Coverage of a run: the blocks that were counted, and the lines of source that they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from gilk.errors import UsageError
from gilk.render import output
from gilk.render.export import coverage as formats
from gilk.runs.clause_request import ClauseRequest
from gilk.runs.covered import covered
from gilk.runs.outcome import Result
from gilk.runs.run import Run
from gilk.runs.strategy import Chosen
from gilk.session.request import Builtin, Request
from gilk.targets.lines import source_lines
from gilk.trace.coverage import by_line

__all__ = ["check_coverage", "write_coverage"]

_LCOV, _DRCOV = ".info", ".drcov"


def check_coverage(file: Path, requests: Iterable[Request | Chosen | ClauseRequest]) -> None:
    """Check that the run counts something, and that the file's name ends as that of a known format does. Raises
    UsageError `bad-coverage`."""
    if file.suffix not in (_LCOV, _DRCOV):
        hint = f"FILE{_LCOV} is lcov's, FILE{_DRCOV} drcov's"
        raise UsageError("bad-coverage", f"the name of {file} says no format of coverage", hint)
    if not any(not isinstance(request, ClauseRequest) and request.instrument == Builtin.COUNT for request in requests):
        hint = "-i '*:blocks=count' counts all blocks, -i '*=@coverage' tells which ran"
        raise UsageError("bad-coverage", "coverage is made of counts of blocks, and none are asked for", hint)


def write_coverage(file: Path, running: Run, result: Result) -> list[str]:
    """Write the coverage of what the run has counted, as lcov or drcov by the file's name; returns notes for the user.
    Raises StoreError `cannot-write`."""
    functions, left = covered(running.asked, result.counts)
    notes = [f"not in {file}, for several functions have the name: {', '.join(left[:8])}"] if left else []
    if file.suffix == _DRCOV:
        output.write(file, formats.drcov(functions))
        return notes
    sources = by_line(functions, _lines)
    output.write(file, formats.lcov(sources))
    if not sources:
        notes.append(f"{file} is empty: nothing is known of the source lines of what was counted")
    return notes


def _lines(path: Path, start: int, end: int) -> Iterator[tuple[str, int]]:
    table = source_lines(path)
    return iter(table.within(start, end) if table is not None else ())
