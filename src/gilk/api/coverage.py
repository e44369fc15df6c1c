# SPDX-License-Identifier: LGPL-2.1-or-later
"""Coverage of a run, or of a file that a run has stored: the blocks that were counted, and the lines of source that
they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from gilk.errors import UsageError
from gilk.image.stripped import remark
from gilk.render import output
from gilk.render.export import coverage as formats
from gilk.runs.clause_request import ClauseRequest
from gilk.runs.covered import covered
from gilk.runs.outcome import Result
from gilk.runs.run import Run
from gilk.runs.strategy import Chosen
from gilk.session.request import Builtin, Request
from gilk.targets.lines import doubt, source_lines
from gilk.trace.coverage import SourceCoverage, by_line
from gilk.trace.reading import Trace
from gilk.values import dataclass

__all__ = ["StoredLines", "check_coverage", "stored_lines", "write_coverage"]

_LCOV, _DRCOV = ".info", ".drcov"
_SAID = 10  # how many files are named in a hint


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


@dataclass(frozen=True)
class StoredLines:
    """The coverage of source files, by name. ``built``: when the programs were last written, in seconds since 1970, 0
    if none is there. ``notes``: about programs whose lines are not known.
    """

    sources: list[SourceCoverage]
    built: float
    notes: list[str]


def stored_lines(trace: Trace, names: str = "*") -> StoredLines:
    """The coverage of the source files of a stored run of which the name or the whole path matches the glob ``names``.

    Raises UsageError `no-block-counts`, `no-line-table`, `no-such-line`.
    """
    blocks = trace.tally.blocks
    if not blocks:
        hint = "gilk run -i '*:blocks=count' -o FILE makes one"
        raise UsageError("no-block-counts", f"there are no counts of blocks in {trace.path}", hint)
    doubts = {each.path: doubt(each.path, each.content) for each in {each.path: each for each in blocks}.values()}
    known = [each for each in blocks if not doubts[each.path]]
    sources, notes = by_line(known, _lines), list(filter(None, doubts.values()))
    if not sources:
        named = {path.name: [each.name for each in known if each.path == path] for path in doubts}
        hint = "; ".join(notes or remark(named)) or "compile the program with -g, or install its debug symbols"
        raise UsageError("no-line-table", "nothing is known of the source lines of what was counted", hint)
    chosen = [each for each in sources if fnmatchcase(each.file, names) or fnmatchcase(Path(each.file).name, names)]
    if not chosen:
        hint = f"there are {', '.join(sorted(Path(each.file).name for each in sources)[:_SAID])}"
        raise UsageError("no-such-line", f"no source file with counts is called {names}", hint)
    return StoredLines(chosen, max(map(_written, doubts)), notes)


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0
