# SPDX-License-Identifier: LGPL-2.1-or-later
"""The places where functions are inlined, and whether their calls can be counted there; functions under other names are
found as well."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import Function
from gilk.errors import ImageError
from gilk.image import lookup
from gilk.image.cfi import How
from gilk.image.demangle import readable, readable_in
from gilk.image.lookup import goes_by, is_exact
from gilk.image.model import FunctionSpan, Image
from gilk.image.stripped import remark
from gilk.image.unwind import unwind
from gilk.image.value_place import CFA, FARTHEST, RBP, RSP, ArgumentPlace, ValuePlace
from gilk.splice import points
from gilk.splice.inlined import InstructionFlow, beginning, endings
from gilk.splice.plan import Refusal
from gilk.splice.points import Point
from gilk.targets import lines
from gilk.targets.base import Code, Loaded
from gilk.targets.inlined_everywhere import inlined_everywhere
from gilk.trace.probes import Inlined, inlined_at, left_at, under_name
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.image.dwarf.inlined import Copies, InlinedCopy
    from gilk.image.dwarf.line_program import LineRow

_MOST_PLACES = 1000  # how many places of one function are listed
_MOST_INSTANCES = 4096  # how many instances of one function are looked at
_NEAR = 64  # bytes of code after an entry in which the function's second statement begins
_PARTS = (".part.", ".cold")  # in names of code that belongs to a function, but is not called as it is
_SIMILAR = 4  # how many similar or matching names a hint has
_MOST_FUNCTIONS = 20  # how many functions are looked up at the end of a run


@dataclass(frozen=True, slots=True)
class Instance:
    """A place where calls of a function begin without its own entry: an inlined copy, or an entry under another name.

    ``function``: the function that contains the place. ``refusal``: why there can be no instrument, None if there can.
    ``inlined``: there is no call instruction, so no arguments and no return. ``left``: if asked for, the points where
    its calls are left, each with the function that it lies in. ``arguments``: those of its calls, if asked for.
    ``depth``: in how many functions and copies an inlined one lies. ``frames``: the canonical frame address of the
    function that contains the place, where the call begins and then at each of the points ``left``; None where it is
    not known. It is the same in one call.
    """

    function: Function
    point: Point
    refusal: Refusal | None
    inlined: bool
    left: tuple[tuple[Function, Point], ...] = ()
    arguments: tuple[ArgumentPlace, ...] = ()
    depth: int = 0
    frames: tuple[ValuePlace | None, ...] = ()


def instances(
    code: Code, loaded: Loaded, spans: Sequence[FunctionSpan], name: str, timed: bool = False, asked: bool = False,
    moved: bool = False,
) -> Iterator[Instance]:  # fmt: skip
    """The instances of function ``name`` in an image that its debug information tells of.

    ``spans``: the functions of the image that have this name, which are not among the instances. ``timed``: find where
    calls are left, too, and refuse the instances where that is not known, or where the stack pointer is another one
    then, unless it may have ``moved``. ``asked``: find the calls' arguments, too.
    """
    found, known = _copies(loaded.path, name, asked), {span.start for span in spans}
    if not (found.found or found.starts - known):
        return
    image, analysis = code.image(loaded.path), code.analysis(loaded)
    shown = spans[0].name if len(spans) == 1 else name
    whole, frames = dict(found.whole), _Frames(image)
    for span in _under_other_names(image, found.starts - known):
        point = Point(image.name, shown, under_name(span.name), span.start, False)
        clone = analysis.function(span)
        left = [(part, replace(each, function=shown)) for part, each in points.returns(image, analysis, clone)]
        given = frames.certain(whole[span.start], span.start)
        left = left if timed else []
        at = (span.start, *(_next(analysis, part, each) for part, each in left))
        yield Instance(clone, point, None, False, tuple(left), given, frames=frames.at(at))
    around: Function | None = analysis.function(spans[0]) if spans else None
    flows = _Flows(image, analysis)
    copies = found.found[:_MOST_INSTANCES]
    entries = {copy.entry for copy in copies}
    seconds = {_second(loaded.path, copy.entry, copy.view) for copy in copies if not copy.inner}
    seconds = (seconds | {_second(loaded.path, span.start, 0) for span in spans}) - {None}
    for copy in copies:
        second = _second(loaded.path, copy.entry, copy.view) if copy.inner else None
        if seconds and second is not None and second not in seconds:
            continue  # this copy is the rest of a call that began elsewhere
        home = image.span_at(copy.address) if copy.address is not None else None
        if home is not None:
            around = analysis.function(home)
            address, refusal = beginning(flows.of(around), copy.ranges, copy.entry)
            if copy.inner and copy.entry is not None and second not in seconds:
                refusal = Refusal.INLINED_PART
            elif refusal is None and _is_repeated(loaded.path, copy, address, entries):
                refusal = Refusal.INLINED_COPIES
            place = f"{home.name}:+{address - home.start:#x}"
            ends = endings(flows.of_all(around), copy.ranges, address) if timed and refusal is None else []
            if ends is None or (not moved and any(end.depth for end in ends)):
                ends, refusal = [], Refusal.INLINED_EXIT
            back = [(end.part, Point(image.name, shown, left_at(place), end.address, end.after)) for end in ends]
            given = frames.certain(copy.arguments, address, address == copy.address)
            point = Point(image.name, shown, inlined_at(place), address, False)
            around_it = frames.at((address, *(end.next for end in ends)))
            yield Instance(around, point, refusal, True, tuple(back), given, copy.depth, around_it)
    if around is not None and not (found.complete and len(found.found) <= _MOST_INSTANCES):
        point = Point(image.name, shown, inlined_at("other places"), around.start, False)
        yield Instance(around, point, Refusal.INLINED_MORE, True)


class _Frames:
    """The frames of an image's functions, by its unwind table."""

    def __init__(self, image: Image) -> None:
        self._image = image

    def certain(
        self, arguments: Iterable[ArgumentPlace], address: int, right: bool = True
    ) -> tuple[ArgumentPlace, ...]:  # fmt: skip
        """The arguments, with places in terms of registers at ``address``. Places in memory that may be elsewhere than
        in the frame are given up; all places, unless they are ``right`` for this address."""
        return tuple(self._certain(each, address) if right else _without(each) for each in arguments)

    def at(self, addresses: Iterable[int]) -> tuple[ValuePlace | None, ...]:
        """The canonical frame address at each of the addresses, in terms of registers there; None if it is unknown."""
        return tuple(map(self._frame, addresses))

    def _frame(self, address: int) -> ValuePlace | None:
        frame = unwind(self._image).rule(address)
        if frame is None or frame.how is not How.PLAIN or frame.base not in (RSP, RBP):
            return None
        return ValuePlace(frame.base, frame.offset)

    def _certain(self, argument: ArgumentPlace, address: int) -> ArgumentPlace:
        place = argument.place
        if place is None or (place.base != CFA and not place.loaded):
            return argument
        frame = self._frame(address)
        if frame is None or frame.base is None:
            return _without(argument)
        place = place.in_frame(frame.base, frame.offset)
        near = place is not None and abs(place.offset) <= FARTHEST
        return replace(argument, place=place) if near else _without(argument)


def _next(analysis: Analysis, part: Function, point: Point) -> int:
    """The address of the instruction that control comes to behind a point."""
    block = part.block_at(point.address)
    steps = analysis.steps(part, block) if block is not None and point.after else ()
    return next((int(one.instruction.next_ip) for one in steps if one.instruction.ip == point.address), point.address)


def _without(argument: ArgumentPlace) -> ArgumentPlace:
    return argument if argument.place is None else replace(argument, place=None, why="argument-lost")


class _Flows:
    """The control flow of functions that contain inlined copies; each is found once."""

    def __init__(self, image: Image, analysis: Analysis) -> None:
        self._image, self._analysis = image, analysis
        self._known: dict[tuple[int, bool], InstructionFlow] = {}

    def of(self, function: Function) -> InstructionFlow:
        """The flow in one part of a function."""
        return self._made((function,), False)

    def of_all(self, part: Function) -> InstructionFlow:
        """The flow in the whole function that ``part`` belongs to."""
        span = self._image.span_at(part.whole) if part.whole else None
        return self._made(self._analysis.extents(self._analysis.function(span) if span is not None else part), True)

    def _made(self, parts: Sequence[Function], whole: bool) -> InstructionFlow:
        key = parts[0].start, whole
        if key not in self._known:
            self._known[key] = InstructionFlow(self._analysis, parts)
        return self._known[key]


def _under_other_names(image: Image, starts: Iterable[int]) -> Iterator[FunctionSpan]:
    """The functions that begin at ``starts`` and have the source's name with a suffix, as f.constprop.0; parts like
    f.cold are left out."""
    for start in sorted(starts):
        span = image.span_at(start)
        if span is not None and span.start == start and not any(part in span.name for part in _PARTS):
            yield span


def _second(path: Path, entry: int | None, view: int | None) -> tuple[int, int] | None:
    """The line and column of the statement that follows the one at ``entry``; None if that is not known."""
    if entry is None or view is None:
        return None
    behind = _rows(path, [(entry, entry + _NEAR)])[view + 1 : view + 2]
    return (behind[0].line, behind[0].column) if behind else None


def _is_repeated(path: Path, copy: InlinedCopy, entry: int, entries: Container[int | None]) -> bool:
    """Whether the first statement of a copy begins also at another place of the same copy, or may do so.

    ``entries``: where other copies of the function begin.
    """
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
    """The row of the line table at a copy's beginning; if the view is unknown, the first row there that may be a line
    of the function."""
    there = [row for row in rows if row.address == entry]
    if copy.view is not None:
        return there[copy.view] if copy.view < len(there) else None
    return next((row for row in there if row.statement and row.line >= copy.line), None)


def _copies(path: Path, name: str, asked: bool = False) -> Copies:
    """The inlined copies of a function; none if there is no debug information. ``asked``: with their arguments."""
    return _read_copies(path, lines.state(path), name, asked)


@lru_cache(maxsize=256)
def _read_copies(path: Path, _state: tuple[int, ...], name: str, asked: bool) -> Copies:
    from gilk.image.dwarf import sections  # imported here: it is rarely needed
    from gilk.image.dwarf.entries import Entries
    from gilk.image.dwarf.inlined import Copies, copies

    try:
        debug = sections.read(path)
        return copies(Entries(debug), name, asked) if debug is not None else Copies((), True)
    except ImageError:
        return Copies((), True)


def inlined(code: Code, loaded: Loaded, name: str) -> Inlined | None:
    """The places where function ``name`` is inlined in an image; None if there are none, or if nothing is known."""
    found = _copies(loaded.path, name)
    try:
        image = code.image(loaded.path)
    except ImageError:
        return None
    if not found.found:
        return None
    places = dict.fromkeys(_place(image, each.within, each.address) for each in found.found)
    return Inlined(name, loaded.name, len(found.found), tuple(places)[:_MOST_PLACES], found.complete)


def called_elsewhere(code: Code, loaded: Loaded, name: str, start: int) -> str:
    """Where, in words, calls of function ``name`` run other code than that at ``start``: its inlined copies, and
    functions that the compiler has made of it under other names. "" if there are none, or if nothing is known."""
    found = inlined(code, loaded, name)
    starts = _copies(loaded.path, name).starts - {start}
    clones = [span.name for span in _under_other_names(code.image(loaded.path), starts)] if starts else []
    words = [f"inlined {found.where}"] if found is not None else []
    words += [f"copied as {', '.join(clones)}"] if clones else []
    return " and ".join(words)


def code_of_copies(loaded: Loaded, name: str) -> Iterator[tuple[int, int]]:
    """The link-time address ranges of the inlined copies of a function."""
    return (each for copy in _copies(loaded.path, name).found for each in copy.ranges)


def has_debug_information(loaded: Loaded) -> bool:
    return _has_debug_information(loaded.path, lines.state(loaded.path))


@lru_cache(maxsize=256)
def _has_debug_information(path: Path, _state: tuple[int, ...]) -> bool:
    from gilk.image.dwarf import sections

    try:
        return sections.read(path) is not None
    except ImageError:
        return False


def _similar(code: Code, loaded: Loaded, name: str) -> Iterator[str]:
    """The functions that exist only inlined and have names like the last part of ``name``."""
    from gilk.image.dwarf import near, sections  # imported here: it is rarely needed

    try:
        debug = sections.read(loaded.path)
        for each in near.near(debug, name.rpartition("::")[2], _SIMILAR) if debug is not None else ():
            if not lookup.matching(code.image(loaded.path), each) and inlined(code, loaded, each) is not None:
                yield each
    except ImageError:
        return


def _place(image: Image, within: str, address: int | None) -> str:
    """A place in the notation of points, as function:+offset; if its address is unknown, the name of the containing
    function."""
    span = image.span_at(address) if address is not None else None
    return within or "?" if span is None or address is None else f"{span.name}:+{address - span.start:#x}"


class NamedFunctions:
    """The functions that a run names, with the images where they are found; at the end of the run, remarks are made
    about them."""

    def __init__(self) -> None:
        self._functions: dict[tuple[Path, str], tuple[Code, Loaded]] = {}
        self._instrumented: dict[str, dict[str, set[tuple[Loaded, Function]]]] = {}
        self._codes: dict[Path, Code] = {}  # by the path of an image, a target that has it

    def note(self, code: Code, names: Iterable[str], parts: Iterable[tuple[Loaded, Function]]) -> None:
        """Note what a request has found. ``parts``: functions that carry a probe now. ``names``: the functions that
        were asked for."""
        exact = {name for name in names if is_exact(name)}
        for loaded, function in parts:
            self._codes.setdefault(loaded.path, code)
            self._instrumented.setdefault(loaded.name, {}).setdefault(function.name, set()).add((loaded, function))
            for name in exact.intersection((function.name, *function.aliases)) or _of_source(function, exact):
                if len(self._functions) < _MOST_FUNCTIONS:
                    self._functions.setdefault((loaded.path, name), (code, loaded))

    def stripped(self) -> list[str]:
        """A remark about images in which most functions with a probe have no names; empty if there are no such
        images."""
        return remark(self._instrumented)

    def instrumented(self) -> Iterator[tuple[Loaded, Function, bool]]:
        """The functions that carry a probe; the bool says whether another function of the image has the same name."""
        for named in self._instrumented.values():
            for functions in named.values():
                shared = len({(loaded.path, function.start) for loaded, function in functions}) > 1
                yield from ((loaded, function, shared) for loaded, function in functions)

    def content(self, path: Path) -> str:
        """The digest of an image that carries probes (Image.content), in hexadecimal."""
        return self._codes[path].image(path).content.hex()

    def inlined(self) -> list[Inlined]:
        """The functions given to note() that are also inlined somewhere."""
        looked = (inlined(code, loaded, name) for (_, name), (code, loaded) in self._functions.items())
        return [found for found in looked if found is not None]


def _of_source(function: Function, typed: Iterable[str]) -> list[str]:
    """The names that the user typed and that are the function's name in the source."""
    return [name for name in typed if goes_by(function.name, name)]


def _matching_copies(images: Iterable[Loaded], glob: str) -> str:
    """A hint with functions that match a pattern and are inlined at all calls; '' if there are none."""
    inlined_ones = (readable(name) for loaded in images for name in inlined_everywhere(loaded.path).names)
    names = list(dict.fromkeys(name for name in inlined_ones if fnmatchcase(name, glob)))
    if not names:
        return ""
    more = f" and {len(names) - _SIMILAR} more" if len(names) > _SIMILAR else ""
    return f"inlined at all calls: {', '.join(names[:_SIMILAR])}{more}"


def hint(code: Code, images: Iterable[Loaded], name: str) -> str:
    """A hint why a function, or all that a pattern means, was not found; '' if nothing is known."""
    unknown = False
    looked = list(images)
    if not is_exact(name):
        return _matching_copies(looked, name)
    for loaded in looked:
        found = inlined(code, loaded, name)
        if found is not None:
            return f"it is inlined {readable_in(found.where)}"
        unknown = unknown or not has_debug_information(loaded)
    similar = [each for loaded in looked for each in _similar(code, loaded, name)]
    if similar:
        return f"near names of inlined functions: {', '.join(similar)}"
    return "if it is in the source, it may be inlined: there is no debug information to tell" if unknown else ""
