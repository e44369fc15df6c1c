# SPDX-License-Identifier: LGPL-2.1-or-later
"""The places where functions are inlined, and whether their calls can be counted there."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gilk.analysis.model import Function
from gilk.errors import ImageError
from gilk.image.demangle import readable_in
from gilk.image.lookup import goes_by, is_exact
from gilk.image.model import FunctionSpan, Image
from gilk.image.stripped import remark
from gilk.splice.inlined import beginning
from gilk.splice.plan import Refusal
from gilk.splice.points import Point
from gilk.targets import lines
from gilk.targets.base import Code, Loaded
from gilk.trace.probes import Inlined, inlined_at, under_name
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.image.dwarf.inlined import Copies, InlinedCopy
    from gilk.image.dwarf.line_program import LineRow

_MOST_PLACES = 1000  # that are listed
_MOST_INSTANCES = 4096  # of one function
_NEAR = 64  # bytes of code, in which the next statement begins
_PARTS = (".part.", ".cold")  # in the names of what is not called as the function is
_MOST_FUNCTIONS = 20  # that are looked up at the end of a run


@dataclass(frozen=True, slots=True)
class Instance:
    """A place where calls of a function begin that has no entry of its own there, or has it under another name.

    ``function``: the one whose code it is a part of. ``refusal``: why there can be no instrument, None where there can.
    ``inlined``: there is no call, with arguments and a return.
    """

    function: Function
    point: Point
    refusal: Refusal | None
    inlined: bool


def instances(code: Code, loaded: Loaded, spans: Sequence[FunctionSpan], name: str) -> Iterator[Instance]:
    """The instances of ``name`` in an image, as far as debug information tells, besides ``spans``: its functions."""
    found, known = _copies(loaded.path, name), {span.start for span in spans}
    if not (found.found or set(found.whole) - known):
        return
    image, analysis = code.image(loaded.path), code.analysis(loaded)
    shown = spans[0].name if len(spans) == 1 else name
    for span in _under_other_names(image, set(found.whole) - known):
        point = Point(image.name, shown, under_name(span.name), span.start, False)
        yield Instance(analysis.function(span), point, None, False)
    around: Function | None = analysis.function(spans[0]) if spans else None
    copies = found.found[:_MOST_INSTANCES]
    entries = {copy.entry for copy in copies}
    seconds = {_second(loaded.path, copy.entry, copy.view) for copy in copies if not copy.inner}
    seconds = (seconds | {_second(loaded.path, span.start, 0) for span in spans}) - {None}
    for copy in copies:
        second = _second(loaded.path, copy.entry, copy.view) if copy.inner else None
        if seconds and second is not None and second not in seconds:
            continue  # the rest of a call that has begun elsewhere
        home = image.span_at(copy.address) if copy.address is not None else None
        if home is not None:
            around = analysis.function(home)
            address, refusal = beginning(analysis, around, copy.ranges, copy.entry)
            if copy.inner and copy.entry is not None and second not in seconds:
                refusal = Refusal.INLINED_PART
            elif refusal is None and _is_repeated(loaded.path, copy, address, entries):
                refusal = Refusal.INLINED_COPIES
            where = inlined_at(f"{home.name}:+{address - home.start:#x}")
            yield Instance(around, Point(image.name, shown, where, address, False), refusal, True)
    if around is not None and not (found.complete and len(found.found) <= _MOST_INSTANCES):
        point = Point(image.name, shown, inlined_at("other places"), around.start, False)
        yield Instance(around, point, Refusal.INLINED_MORE, True)


def _under_other_names(image: Image, starts: Iterable[int]) -> Iterator[FunctionSpan]:
    """Functions that begin there and are called as the source's function is, as f.constprop.0; parts of it are not."""
    for start in sorted(starts):
        span = image.span_at(start)
        if span is not None and span.start == start and not any(part in span.name for part in _PARTS):
            yield span


def _second(path: Path, entry: int | None, view: int | None) -> tuple[int, int] | None:
    """The line and the column of the statement with which code goes on after its beginning; None where that is not
    known."""
    if entry is None or view is None:
        return None
    behind = _rows(path, [(entry, entry + _NEAR)])[view + 1 : view + 2]
    return (behind[0].line, behind[0].column) if behind else None


def _is_repeated(path: Path, copy: InlinedCopy, entry: int, entries: Container[int | None]) -> bool:
    """Whether the statement that a copy begins with begins at another place of it, too, or may do so. ``entries``:
    where copies of the function begin, by themselves."""
    rows = _rows(path, dict.fromkeys((*copy.ranges, (entry, entry + 1))))
    first = _beginning_row(rows, copy, entry)
    if first is None:
        return len(copy.ranges) > 1
    meant = (first.file, first.line, first.column)
    again = (row for row in rows if row.statement and (row.file, row.line, row.column) == meant)
    return any(row.address != entry and row.address not in entries for row in again)


def _rows(path: Path, code: Iterable[tuple[int, int]]) -> list[LineRow]:
    table = lines.source_lines(path)
    return [row for low, high in code for row in table.rows(low, high)] if table is not None else []


def _beginning_row(rows: Iterable[LineRow], copy: InlinedCopy, entry: int) -> LineRow | None:
    """The row of a copy's beginning, or the first there that is of the function's own lines, as far as is known."""
    there = [row for row in rows if row.address == entry]
    if copy.view is not None:
        return there[copy.view] if copy.view < len(there) else None
    return next((row for row in there if row.statement and row.line >= copy.line), None)


def _copies(path: Path, name: str) -> Copies:
    """None are found where there is no debug information."""
    return _read_copies(path, lines.state(path), name)


@lru_cache(maxsize=256)
def _read_copies(path: Path, _state: tuple[int, ...], name: str) -> Copies:
    from gilk.image.dwarf import sections  # here: hardly anybody asks
    from gilk.image.dwarf.entries import Entries
    from gilk.image.dwarf.inlined import Copies, copies

    try:
        debug = sections.read(path)
        return copies(Entries(debug), name) if debug is not None else Copies((), True)
    except ImageError:
        return Copies((), True)


def inlined(code: Code, loaded: Loaded, name: str) -> Inlined | None:
    """Where ``name`` is inlined in an image; None where it is not, or where nothing is known of that."""
    found = _copies(loaded.path, name)
    try:
        image = code.image(loaded.path)
    except ImageError:
        return None
    if not found.found:
        return None
    places = dict.fromkeys(_place(image, each.within, each.address) for each in found.found)
    return Inlined(name, loaded.name, len(found.found), tuple(places)[:_MOST_PLACES], found.complete)


def has_debug_information(loaded: Loaded) -> bool:
    from gilk.image.dwarf import sections

    try:
        return sections.read(loaded.path) is not None
    except ImageError:
        return False


def _place(image: Image, within: str, address: int | None) -> str:
    """As a point is written, where that is known."""
    span = image.span_at(address) if address is not None else None
    return within or "?" if span is None or address is None else f"{span.name}:+{address - span.start:#x}"


class NamedFunctions:
    """The functions that a run names, as far as there are such, for what is to be said of them at its end."""

    def __init__(self) -> None:
        self._functions: dict[tuple[Path, str], tuple[Code, Loaded]] = {}
        self._instrumented: dict[str, dict[str, set[tuple[Loaded, Function]]]] = {}

    def note(self, code: Code, names: Iterable[str], parts: Iterable[tuple[Loaded, Function]]) -> None:
        """``parts``: what carries a probe now, of which ``names`` were asked for."""
        exact = {name for name in names if is_exact(name)}
        for loaded, function in parts:
            self._instrumented.setdefault(loaded.name, {}).setdefault(function.name, set()).add((loaded, function))
            for name in exact.intersection((function.name, *function.aliases)) or _of_source(function, exact):
                if len(self._functions) < _MOST_FUNCTIONS:
                    self._functions.setdefault((loaded.path, name), (code, loaded))

    def stripped(self) -> list[str]:
        """A sentence about images of which most functions that carry a probe have no names, if there are such."""
        return remark(self._instrumented)

    def instrumented(self) -> Iterator[tuple[Loaded, Function, bool]]:
        """The functions that carry a probe, and whether another of the image has the same name."""
        for named in self._instrumented.values():
            for functions in named.values():
                shared = len({(loaded.path, function.start) for loaded, function in functions}) > 1
                yield from ((loaded, function, shared) for loaded, function in functions)

    def inlined(self) -> list[Inlined]:
        """The functions of note() that are inlined somewhere as well."""
        looked = (inlined(code, loaded, name) for (_, name), (code, loaded) in self._functions.items())
        return [found for found in looked if found is not None]


def _of_source(function: Function, typed: Iterable[str]) -> list[str]:
    """The names among those typed by which the function goes in its source."""
    return [name for name in typed if goes_by(function.name, name)]


def hint(code: Code, images: Iterable[Loaded], name: str) -> str:
    """Why a function that is not there may not be; '' for a pattern."""
    if not is_exact(name):
        return ""
    unknown = False
    for loaded in images:
        found = inlined(code, loaded, name)
        if found is not None:
            return f"it is inlined {readable_in(found.where)}"
        unknown = unknown or not has_debug_information(loaded)
    return "if it is in the source, it may be inlined: there is no debug information to tell" if unknown else ""
