# SPDX-License-Identifier: LGPL-2.1-or-later
"""USDT, the providers that programs and libraries define (<sys/sdt.h>): ``NAMEpid:module:function:probe``."""

from __future__ import annotations

import bisect
import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from pathlib import Path

from gilk.errors import GilkError, UsageError
from gilk.image import demangle, lookup
from gilk.image.model import FunctionSpan, Image
from gilk.image.stapsdt import UsdtMarker, marks
from gilk.lang.d.probes import Description, Key
from gilk.lang.ir import Given
from gilk.providers.operands import operands
from gilk.providers.probe import ProbeSite, ProcessProbe, Semaphore
from gilk.splice import points
from gilk.targets.base import Loaded, Target

_Found = list[tuple[ProbeSite, UsdtMarker]]


def probes(process: Target, description: Description) -> Iterator[ProcessProbe]:
    if not description.provider:
        return
    for loaded in process.loaded():
        if loaded.is_meant(description.module):
            by_key: dict[Key, _Found] = {}
            meant = [mark for mark in marks_of(loaded.path) if _matches(mark, process.pid, description)]
            functions = lookup.matching(process.image(loaded.path), description.function or "*") if meant else []
            for mark in meant:
                if _can_count(process, loaded, mark):
                    _add(by_key, process, loaded, mark, functions)
            yield from (_probe(key, loaded, found) for key, found in by_key.items())


def marks_of(path: Path) -> tuple[UsdtMarker, ...]:
    """The USDT probes in the file that is there now, which may have replaced one that was read before."""
    try:
        state = path.stat()
    except OSError:
        return ()
    return _marks_once(path, (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns))


@lru_cache(maxsize=256)
def _marks_once(path: Path, _: tuple[int, ...]) -> tuple[UsdtMarker, ...]:
    try:
        return marks(path)
    except GilkError:
        return ()


def names(images: Iterable[Loaded]) -> frozenset[str]:
    """The names of all providers in the images of a process, without the process's number."""
    return frozenset(mark.provider for loaded in images for mark in marks_of(loaded.path))


def name(mark: UsdtMarker) -> str:
    """DTrace's name for the probe: two underscores stand for a dash, which a C name cannot have."""
    return mark.name.replace("__", "-")


def _matches(mark: UsdtMarker, pid: int, description: Description) -> bool:
    if not fnmatch.fnmatchcase(f"{mark.provider}{pid}", description.provider):
        return False
    globs = description.name
    return not globs or any(fnmatch.fnmatchcase(each, globs) for each in (name(mark), mark.name))


def _can_count(process: Target, loaded: Loaded, mark: UsdtMarker) -> bool:
    """Whether the probe has no semaphore, or one in the image's own writable memory."""
    at, segments = mark.semaphore, process.image(loaded.path).segments
    return not at or any(each.writable and 0 <= at - each.address <= each.size - 2 for each in segments)


def _add(
    by_key: dict[Key, _Found], process: Target, loaded: Loaded, mark: UsdtMarker, functions: Sequence[FunctionSpan]
) -> None:
    """Add the site of a mark, if it lies in one of ``functions``, which are in address order. One probe may have
    several sites."""
    image, analysis = process.image(loaded.path), process.analysis(loaded)
    span = image.span_at(mark.address)
    at = bisect.bisect_left(functions, mark.address, key=attrgetter("end"))
    if span is None or span not in functions[at : at + 2]:
        return
    part = analysis.function(span)
    try:
        (point,) = points.points(image, analysis, part, f"+{mark.address - part.start:#x}")
    except UsageError:
        return  # no instruction is known there: the note is wrong, or control is not known to reach it
    fetched = operands(mark.arguments, lambda symbol: _symbol(image, loaded.bias, symbol))
    key = (f"{mark.provider}{process.pid}", loaded.name, demangle.readable(span.name), name(mark))
    by_key.setdefault(key, []).append((ProbeSite(loaded, part.start, point, Given(fetched)), mark))


def _probe(key: Key, loaded: Loaded, found: _Found) -> ProcessProbe:
    counted = {mark.semaphore for _, mark in found if mark.semaphore}
    semaphores = frozenset(Semaphore(address + loaded.bias, str(loaded.path)) for address in counted)
    return ProcessProbe(key, tuple(site for site, _ in found), semaphores)


def _symbol(image: Image, bias: int, symbol: str) -> int | None:
    """The run-time address of a symbol; None unless exactly one address has that name."""
    found = {each.address for each in image.named(symbol)}
    return found.pop() + bias if len(found) == 1 else None
