# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``pidN``: entries, returns and instructions of the functions of process N."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gilk.analysis.model import Function
from gilk.errors import UsageError
from gilk.image.model import Span
from gilk.lang.d.probes import Description, Key
from gilk.splice import points
from gilk.splice.points import Point, Spec
from gilk.target.base import Loaded
from gilk.target.process import Process

_OFFSET = re.compile(r"[0-9a-f]+\Z")
_MAIN = ("a.out", "-")


@dataclass(frozen=True, slots=True)
class PidProbe:
    """``points``: where it fires: one, or the returns of a function, each with the part of the function it lies in.

    ``start``: of the function, at run time; arg0 of a return is how far from there it is.
    """

    key: Key
    loaded: Loaded
    points: tuple[tuple[Function, Point], ...]
    start: int

    @property
    def returns(self) -> bool:
        return self.key[3] == "return"


def probes(process: Process, description: Description) -> Iterator[PidProbe]:
    """Those that are meant; none when it is about something else."""
    provider = f"pid{process.pid}"
    if not fnmatch.fnmatchcase(provider, description.provider or "?"):
        return
    for loaded in process.loaded():
        if not _is_meant(loaded, description.module):
            continue
        for span in _functions(process, loaded, description.function):
            for name, where in _places(process, loaded, span, description.name):
                module = "a.out" if loaded.main else loaded.name
                yield PidProbe((provider, module, span.name, name), loaded, where, span.start + loaded.bias)


def _is_meant(loaded: Loaded, module: str) -> bool:
    """``libc`` also means libc.so.6."""
    if not module:
        return True
    return (loaded.main and module in _MAIN) or Spec(module, "*", "entry").matches_image(loaded.name, loaded.main)


def _functions(process: Process, loaded: Loaded, glob: str) -> list[Span]:
    try:
        return points.spans(process.image(loaded.path), glob or "*")
    except UsageError:
        return []


def _places(
    process: Process, loaded: Loaded, span: Span, name: str
) -> Iterator[tuple[str, tuple[tuple[Function, Point], ...]]]:
    """Names of probes, with where they fire. Without a name: entry and return."""
    image, analysis = process.image(loaded.path), process.analysis(loaded)
    function = analysis.function(span)
    if not function.blocks:
        return
    if not name or fnmatch.fnmatchcase("entry", name):
        yield "entry", tuple((function, point) for point in points.points(image, analysis, function, "entry"))
    if not function.whole and (not name or fnmatch.fnmatchcase("return", name)):
        found = tuple(points.returns(image, analysis, function))
        if found:
            yield "return", found
    if _OFFSET.match(name):
        try:
            where = points.points(image, analysis, function, f"+0x{name}")
            yield name, tuple((function, point) for point in where)
        except UsageError:
            return
