# SPDX-License-Identifier: LGPL-2.1-or-later
"""The providers that programs and libraries bring along (<sys/sdt.h>): ``NAMEpid:module:function:probe``."""

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
    """The marks of the file that is there now: another may have taken the place of one that was looked at before."""
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
    """The names of all providers in the images of a process, without its number."""
    return frozenset(mark.provider for loaded in images for mark in marks_of(loaded.path))


def name(mark: UsdtMarker) -> str:
    """DTrace's: a C name cannot have a dash, for which two underscores stand."""
    return mark.name.replace("__", "-")


def _matches(mark: UsdtMarker, pid: int, description: Description) -> bool:
    if not fnmatch.fnmatchcase(f"{mark.provider}{pid}", description.provider):
        return False
    globs = description.name
    return not globs or any(fnmatch.fnmatchcase(each, globs) for each in (name(mark), mark.name))


def _can_count(process: Target, loaded: Loaded, mark: UsdtMarker) -> bool:
    """Its semaphore, if it has one, is in the image's own memory."""
    at, segments = mark.semaphore, process.image(loaded.path).segments
    return not at or any(each.writable and 0 <= at - each.address <= each.size - 2 for each in segments)


def _add(
    by_key: dict[Key, _Found], process: Target, loaded: Loaded, mark: UsdtMarker, functions: Sequence[FunctionSpan]
) -> None:
    """One probe may have several sites, in one of ``functions``, which are in order, or more."""
    image, analysis = process.image(loaded.path), process.analysis(loaded)
    span = image.span_at(mark.address)
    at = bisect.bisect_left(functions, mark.address, key=attrgetter("end"))
    if span is None or span not in functions[at : at + 2]:
        return
    part = analysis.function(span)
    try:
        (point,) = points.points(image, analysis, part, f"+{mark.address - part.start:#x}")
    except UsageError:
        return  # of no instruction that is known: the note is wrong, or nobody knows how to get there
    fetched = operands(mark.arguments, lambda symbol: _symbol(image, loaded.bias, symbol))
    key = (f"{mark.provider}{process.pid}", loaded.name, demangle.readable(span.name), name(mark))
    by_key.setdefault(key, []).append((ProbeSite(loaded, part.start, point, Given(fetched)), mark))


def _probe(key: Key, loaded: Loaded, found: _Found) -> ProcessProbe:
    counted = {mark.semaphore for _, mark in found if mark.semaphore}
    semaphores = frozenset(Semaphore(address + loaded.bias, str(loaded.path)) for address in counted)
    return ProcessProbe(key, tuple(site for site, _ in found), semaphores)


def _symbol(image: Image, bias: int, symbol: str) -> int | None:
    """Where the one of that name is, at run time."""
    found = {each.address for each in image.named(symbol)}
    return found.pop() + bias if len(found) == 1 else None
