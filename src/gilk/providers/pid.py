# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``pidN``: entries, returns and instructions of the functions of process N."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial

from gilk import activity
from gilk.analysis.analysis import Analysis
from gilk.errors import UsageError
from gilk.image import demangle, lookup
from gilk.image.model import FunctionSpan, Image
from gilk.lang.d.probes import Description, is_glob
from gilk.lang.ir import Binary, Given
from gilk.lang.machine import CallArg, CallResult, Reg, Start
from gilk.lang.types import UINT64
from gilk.providers.probe import ProbeSite, ProcessProbe
from gilk.splice import points
from gilk.splice.points import Point
from gilk.targets import lines
from gilk.targets.base import Loaded, Target

#: Points, each with the start of the part of its function in which it lies.
PlacesIn = tuple[tuple[int, Point], ...]
_OFFSET = re.compile(r"[0-9a-f]{1,16}\Z")

_ARGUMENTS = tuple(CallArg(number) for number in range(10))
_OFFSET_IN_IT = Binary(UINT64, "-", Reg("rip"), Start())
#: The arguments at an entry, at a return, and anywhere else in a function.
GIVEN = {"entry": Given(_ARGUMENTS, edge=True), "return": Given((_OFFSET_IN_IT, CallResult()), edge=True)}
INSIDE = Given(_ARGUMENTS)


def probes(process: Target, description: Description) -> Iterator[ProcessProbe]:
    """The probes that the description means; none if it is about another provider."""
    provider = f"pid{process.pid}"
    if not fnmatch.fnmatchcase(provider, description.provider or "?"):
        return
    images = process.loaded()
    for number, loaded in enumerate(images):
        activity.tell("analysing", number, len(images), "images")
        if not loaded.is_meant(description.module):
            continue
        if description.function == "-":
            yield from _of_address(process, loaded, description)
            continue
        image = process.image(loaded.path)
        found = list(_places(image, partial(process.analysis, loaded), description))
        demangle.learn(span.name for span, _, _ in found)
        for span, name, where in found:
            given, start = GIVEN.get(name, INSIDE), span.start + loaded.bias
            sites = tuple([ProbeSite(loaded, part, point, given, start) for part, point in where])
            key = (provider, loaded.name, demangle.readable(span.name), name)
            yield ProcessProbe(key, sites, calls=name == "return")


def _of_address(process: Target, loaded: Loaded, description: Description) -> Iterator[ProcessProbe]:
    """``pidN:a.out:-:ADDRESS``: an instruction of the program by its address, in hexadecimal digits."""
    if not loaded.main or not _OFFSET.match(description.name):
        return
    image, address = process.image(loaded.path), int(description.name, 16) - loaded.bias
    span = image.span_at(address)
    if span is None:
        return
    for _, where in _inside(image, process.analysis(loaded), span, f"{address - span.start:x}"):
        sites = tuple([ProbeSite(loaded, part, point, INSIDE, span.start + loaded.bias) for part, point in where])
        yield ProcessProbe((f"pid{process.pid}", loaded.name, "-", description.name), sites)


def _places(
    image: Image, analysis: Callable[[], Analysis], description: Description
) -> Iterator[tuple[FunctionSpan, str, PlacesIn]]:
    """The functions and probe names that the description means, with the points where they fire. Without a name, it
    means entry, return and each instruction.
    """
    functions = lookup.matching(image, description.function or "*")
    name = description.name
    if not functions and name.isdecimal() and lines.has_line(image.path, description.function, int(name)):
        yield from _of_line(image, analysis(), description.function, int(name))
    yield from places(image, analysis, functions, name)


def places(
    image: Image, analysis: Callable[[], Analysis], functions: Iterable[FunctionSpan], name: str
) -> Iterator[tuple[FunctionSpan, str, PlacesIn]]:
    """Probe names of these functions that match ``name``, a glob, with the points where they fire.

    Entries need no analysis of the function, except in images of Go.
    """
    entries, inside = fnmatch.fnmatchcase("entry", name or "*"), name != "entry"
    for span in functions:
        if not image.read(span.start, 1):
            continue
        if entries:
            entered = analysis().function(span) if image.is_go else span
            yield span, "entry", ((span.start, points.entry(image.name, entered)),)
        if inside:
            yield from ((span, *found) for found in _inside(image, analysis(), span, name))


def _of_line(image: Image, analysis: Analysis, file: str, line: int) -> Iterator[tuple[FunctionSpan, str, PlacesIn]]:
    """``pidN:module:FILE:LINE``: the probes where code of that line begins."""
    with suppress(UsageError):
        for function, point in lines.at_line(image, analysis, file, line):
            span = image.span_at(function.start)
            if span is not None:
                yield span, f"{point.address - span.start:x}", ((span.start, point),)


def _inside(image: Image, analysis: Analysis, span: FunctionSpan, name: str) -> Iterator[tuple[str, PlacesIn]]:
    function = analysis.function(span)
    if not function.whole and (not name or fnmatch.fnmatchcase("return", name)):
        found = tuple((part.start, point) for part, point in points.returns(image, analysis, function))
        if found:
            yield "return", found
    if not name or is_glob(name):
        for point in points.instructions(image.name, analysis, function):
            offset = f"{point.address - span.start:x}"
            if fnmatch.fnmatchcase(offset, name or "*"):
                yield offset, ((span.start, point),)
    elif _OFFSET.match(name):
        try:
            where = points.points(image, analysis, function, f"+0x{name}")
            yield name, tuple((span.start, point) for point in where)
        except UsageError:
            return
