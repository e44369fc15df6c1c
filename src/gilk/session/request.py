# SPDX-License-Identifier: LGPL-2.1-or-later
"""Requests of a user, and the probes that they mean: each a place in an image and an instrument."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from itertools import islice
from pathlib import Path

from gilk import activity
from gilk.analysis.analysis import Analysis
from gilk.analysis.model import Function
from gilk.errors import TargetError, UsageError
from gilk.image import lookup
from gilk.image.model import FunctionSpan, Image
from gilk.image.value_place import ArgumentPlace, ValuePlace
from gilk.session import inlined as inlining
from gilk.session.go import go_arguments
from gilk.session.inlined import Instance
from gilk.spec import point as point_spec
from gilk.spec.point import Spec
from gilk.splice import points
from gilk.splice.plan import Refusal
from gilk.splice.points import Point
from gilk.targets import lines
from gilk.targets.base import Code, Loaded
from gilk.trace.probes import RecordKind
from gilk.values import dataclass

_HINTS = 3  # images whose similar names are told
_LOOKED_AT = 4  # how many images to search for inlined copies of a function that is not there
_ALSO_INLINED = frozenset({"count", "stamp", "regs", "time", "args"})
KERNEL = "kernel"  # the name of the image that stands for all code of the running kernel


class Builtin(StrEnum):
    """The instruments that need no C compiler."""

    COUNT = "count"
    STAMP = "stamp"
    ARGS = "args"
    REGS = "regs"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class CFunction:
    """The function ``function`` of the C file ``source``, as an instrument; ``flags`` are for the compiler.

    ``made_of``: a digest of all that the code depends on besides; if given, the compiled code is cached. ``text``: the
    C text, if there is no file.
    """

    source: Path
    function: str
    flags: tuple[str, ...] = ()
    made_of: bytes = b""
    text: str | None = None


@dataclass(frozen=True, slots=True)
class ValuesAt:
    """The instrument `args` where debug information tells the places of arguments, which are by their numbers. Offsets
    are run-time addresses where they are addresses at all."""

    places: tuple[ValuePlace | None, ...]


@dataclass(frozen=True, slots=True)
class GoesOn:
    """The instrument `time` in front of a jump by which a call goes on in another function (session/onward.py)."""


@dataclass(frozen=True, slots=True)
class FiresSite:
    """The instrument that has the driver fire its ``site`` of D programs (native/abi/ilk_d_abi.h)."""

    site: int


@dataclass(frozen=True, slots=True)
class CallsAt:
    """The instrument that calls ``function``, the address of code of a module in the kernel, with the registers and
    ``number``.

    ``replaces``: at an entry, the code may return to the caller in place of the function.
    """

    function: int
    number: int
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a user: ``-i POINTS=INSTRUMENT``."""

    spec: Spec
    instrument: Builtin | CFunction

    @property
    def of_kernel(self) -> bool:
        """Whether the points are in the kernel: ``kernel:FUNCTION:WHERE``."""
        return self.spec.image == KERNEL


@dataclass(frozen=True, slots=True)
class Wanted:
    """A probe that is wanted. ``kind`` is a trace.probes.Kind. ``refusal``: why the probe cannot be; it is not planned
    then.

    ``inlined``: there is no call at the point, so no arguments and no return. ``arguments``: those of the call, for
    `args`, if their places are not the registers of calls. ``goes_on``: the point is a jump by which a timed call goes
    on in another function.
    """

    loaded: Loaded
    function: Function
    point: Point
    instrument: Builtin | CFunction
    kind: str
    refusal: Refusal | None = None
    inlined: bool = False
    arguments: tuple[ArgumentPlace, ...] | None = None
    goes_on: bool = False

    @property
    def planned(self) -> Builtin | CFunction | ValuesAt | GoesOn:
        """The instrument as it is planned."""
        if self.goes_on:
            return GoesOn()
        if self.arguments is None:
            return self.instrument
        return values_at(self.arguments, self.loaded.bias)


@dataclass(frozen=True, slots=True)
class WantedSite:
    """A probe that is wanted in a kernel: ``instrument`` fires a site of D programs, or calls code of a module."""

    loaded: Loaded
    function: Function
    point: Point
    instrument: FiresSite | CallsAt
    kind: str = "other"


def place_of(wanted: Wanted | WantedSite) -> int:
    """The link-time address by which the source line of a probe's function is found: that of the function, or of the
    point if another function contains it."""
    named = wanted.point.function == wanted.function.name
    return wanted.function.start if named else wanted.point.address


def values_at(arguments: Iterable[ArgumentPlace], bias: int) -> ValuesAt:
    """The instrument that records the arguments; those without a number or a place are left out."""
    known = {each.number: each.place for each in arguments if each.number is not None and each.place is not None}
    places = {number: place.moved(bias) for number, place in known.items()}
    return ValuesAt(tuple(places.get(number) for number in range(max(places, default=-1) + 1)))


def parse(text: str) -> Request:
    """Read a request ``[IMAGE:]FUNCTION:WHERE=INSTRUMENT``. Raises UsageError `bad-instrument`, `bad-point`."""
    where, separator, name = text.rpartition("=")
    if not separator:
        example = text if point_spec.without_where(text) is not None else f"{text.rstrip(':') or 'main'}:entry"
        raise UsageError("bad-instrument", f"{text!r} is not POINTS=INSTRUMENT", f"for example {example}=count")
    return Request(point_spec.parse(where), instrument(name))


def instrument(name: str) -> Builtin | CFunction:
    """The instrument of that name, or of FILE.c:FUNCTION. Raises UsageError `bad-instrument`."""
    if name in list(Builtin):
        return Builtin(name)
    source, separator, function = name.rpartition(":")
    if separator and source.endswith(".c") and function.isidentifier():
        return CFunction(Path(source), function)
    hint = f"it is one of {', '.join(Builtin)}, or FILE.c:FUNCTION; `gilk run` has `stack`, too"
    raise UsageError("bad-instrument", f"there is no instrument {name!r}", hint)


def expand(process: Code, requests: Iterable[Request], inlined: bool = True) -> Iterator[Wanted]:
    """All probes that the requests mean in this process.

    ``inlined``: include the places where functions are inlined, for the requests that mean these, too
    (``of_instances``). Raises UsageError, and as `having`.
    """
    for request in requests:
        if request.spec.line:
            for loaded, function, point in of_line(process, request.spec):
                yield from probes_at(process, loaded, function, point, request.instrument)
            continue
        everywhere = inlined and of_instances(request)
        meant = having_instances(process, request.spec) if everywhere else having(process, request.spec)
        for number, (loaded, spans) in enumerate(meant):
            activity.tell("analysing", number, len(meant), "images")
            yield from _in_image(process, loaded, spans, request)
            if everywhere:
                yield from _elsewhere(process, loaded, spans, request)


def of_instances(request: Request) -> bool:
    """Whether the request's function name means all instances: its own entry, and the places where it is inlined."""
    exact = lookup.is_exact(request.spec.function) and not request.of_kernel
    return exact and request.spec.where == "entry" and request.instrument in _ALSO_INLINED


def without_instances(requests: Iterable[Request]) -> Iterator[str]:
    """The names of the functions in requests that mean only the functions themselves, not their inlined copies."""
    return (request.spec.function for request in requests if not of_instances(request))


def having_instances(process: Code, spec: Spec) -> list[tuple[Loaded, list[FunctionSpan]]]:
    """The images and functions that having() returns; if no image has the function, the images in which it is only
    inlined, without functions. Raises as `having`."""
    try:
        return having(process, spec)
    except UsageError as error:
        if error.slug != "no-such-function":
            raise
        looked: list[tuple[Loaded, list[FunctionSpan]]] = [(each, []) for each in _meant(process, spec)[:_LOOKED_AT]]
        found = [each for each in looked if any(True for _ in inlining.instances(process, *each, spec.function))]
        if not found:
            raise
        return found


def _elsewhere(process: Code, loaded: Loaded, spans: list[FunctionSpan], request: Request) -> Iterator[Wanted]:
    """The probes at the function's instances, without those at its own entries."""
    timed = request.instrument == Builtin.TIME
    asked = request.instrument == Builtin.ARGS
    for each in _in_order(inlining.instances(process, loaded, spans, request.spec.function, timed, asked)):
        loops = each.function.loops and not each.inlined
        kind = str(request.instrument) if not timed else RecordKind.HEAD if loops else RecordKind.ENTRY
        arguments = each.arguments if asked else None
        yield Wanted(loaded, each.function, each.point, request.instrument, kind, each.refusal, each.inlined, arguments)
        for part, point in each.left:
            yield Wanted(loaded, part, point, request.instrument, RecordKind.RETURN, None, each.inlined)


def _in_order(instances: Iterable[Instance]) -> Iterator[Instance]:
    """The instances in such an order that where one is left and another begins, the one comes first: instruments at one
    place run in order. An instance for which there is no such order is refused."""
    waiting = list(instances)
    while waiting:
        ends = [{point.address for _, point in each.left} for each in waiting]
        free = (n for n, each in enumerate(waiting) if not any(each.point.address in other for other in ends))
        first = next(free, None)
        if first is None:
            yield replace(waiting.pop(0), refusal=Refusal.INLINED_EXIT, left=())
        else:
            yield waiting.pop(first)


def of_line(process: Code, spec: Spec) -> Iterator[tuple[Loaded, Function, Point]]:
    """The places where the code of a source line begins, in the images meant that have that line.

    Raises UsageError `no-such-image`, and as lines.at_line; TargetError `no-such-process`.
    """
    meant = _meant(process, spec)
    having_it = [loaded for loaded in meant if lines.has_line(loaded.path, spec.function, spec.line)]
    for loaded in having_it or meant[:1]:
        image, analysis = process.image(loaded.path), process.analysis(loaded)
        for function, point in lines.at_line(image, analysis, spec.function, spec.line):
            yield loaded, function, point


def _meant(process: Code, spec: Spec) -> list[Loaded]:
    images = process.loaded()
    if not images:
        why = "has ended, or executes no code of a file, as a packed program does"
        raise TargetError("no-such-process", f"{process.who} {why}")
    matching = [image for image in images if (image.is_meant(spec.image) if spec.image else image.main)]
    if not matching:
        names = ", ".join(image.name for image in images)
        raise UsageError("no-such-image", f"no image matches {spec.image!r}", f"there are: {names}")
    return matching


def having(process: Code, spec: Spec) -> list[tuple[Loaded, list[FunctionSpan]]]:
    """The images that the point means and that have such functions, each with these functions.

    An image that matches without having such a function is left out: ``libz*:deflate`` is not about libzip. Raises
    UsageError `no-such-image`, `no-such-function`, TargetError `no-such-process`.
    """
    matching = _meant(process, spec)
    looked_up = ((loaded, lookup.matching(process.image(loaded.path), spec.function)) for loaded in matching)
    found = [(loaded, spans) for loaded, spans in looked_up if spans]
    if not found:
        raise _nowhere(process, matching, spec)
    return found


def _nowhere(process: Code, matching: list[Loaded], spec: Spec) -> UsageError:
    """The error that none of the images has such a function."""
    looked_at, elsewhere = matching[:_LOOKED_AT], _in_libraries(process, spec)
    if elsewhere and all(inlining.inlined(process, loaded, spec.function) is None for loaded in looked_at):
        return _unknown(process, matching, spec, elsewhere)
    return with_hint(_unknown(process, matching, spec), inlining.hint(process, looked_at, spec.function))


def _in_libraries(process: Code, spec: Spec) -> str:
    """A hint with the libraries that have a function of exactly this name, for a point without an image; '' if none
    has."""
    if spec.image or not lookup.is_exact(spec.function):
        return ""
    libraries = [loaded for loaded in process.loaded() if not loaded.main]
    having = [one.name for one in libraries if lookup.matching(process.image(one.path), spec.function)]
    if not having:
        return ""
    return f"it is in {', '.join(having)}: name the library, as in {having[0]}:{spec.function}:{spec.where or 'entry'}"


def with_hint(error: UsageError, hint: str) -> UsageError:
    """The same error with one more hint, which comes first."""
    error.hint = "; ".join(filter(None, (hint, error.hint)))
    return error


def _unknown(process: Code, matching: list[Loaded], spec: Spec, hint: str = "") -> UsageError:
    """``hint``: instead of functions with similar names."""
    errors = (lookup.unknown(process.image(loaded.path), spec.function) for loaded in matching)
    if len(matching) == 1:
        (error,) = errors
        error.hint = hint or error.hint
        return error
    names = ", ".join(loaded.name for loaded in matching)
    similar = islice((error.hint for error in errors if error.hint), _HINTS)
    return UsageError(
        "no-such-function", f"none of {names} has a function {spec.function!r}", hint or "; ".join(similar)
    )


def _in_image(process: Code, loaded: Loaded, spans: Iterable[FunctionSpan], request: Request) -> Iterator[Wanted]:
    image, analysis = process.image(loaded.path), process.analysis(loaded)
    for span in spans:
        function = analysis.function(span)
        if not function.blocks or (function.whole and _of_calls(request)):
            continue
        for part, point in _points(image, analysis, function, request.spec.where):
            yield from probes_at(process, loaded, part, point, request.instrument)


def _of_calls(request: Request) -> bool:
    """Whether the request is about calls of all functions that match a pattern. Parts of functions are left out then: a
    part is not called, and its returns belong to its function."""
    wildcard = any(letter in request.spec.function for letter in "*?[")
    return wildcard and (request.spec.where == "return" or request.instrument == Builtin.TIME)


def _points(image: Image, analysis: Analysis, function: Function, where: str) -> Iterator[tuple[Function, Point]]:
    if where == "return":
        return points.returns(image, analysis, function)
    return ((function, point) for point in points.points(image, analysis, function, where))


def probes_at(
    process: Code, loaded: Loaded, function: Function, point: Point, chosen: Builtin | CFunction
) -> Iterator[Wanted]:
    """The probes that an instrument makes at a point; `time` adds the function's returns. Raises UsageError
    `time-at-entry`."""
    if isinstance(chosen, CFunction):
        yield Wanted(loaded, function, point, chosen, "other")
    elif chosen != Builtin.TIME:
        arguments = None
        if chosen == Builtin.ARGS and point.where == "entry" and process.image(loaded.path).is_go:
            arguments = go_arguments(function.name)
        yield Wanted(loaded, function, point, chosen, str(chosen), arguments=arguments)
    elif point.where != "entry":
        raise UsageError("time-at-entry", "`time` is asked for at `entry`; gilk adds the returns")
    else:
        if function.whole:
            raise UsageError(
                "time-at-entry", f"{function.name} is a part of another function, and is not called", "time that one"
            )
        yield Wanted(loaded, function, point, chosen, "time-head" if function.loops else "time-entry")
        image, analysis = process.image(loaded.path), process.analysis(loaded)
        for part, leaving in points.returns(image, analysis, function):
            yield Wanted(loaded, part, leaving, chosen, "time-return")
