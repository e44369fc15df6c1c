# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``pidN``: entries, returns and instructions of the functions of process N."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator

from gilk.analysis.analysis import Analysis
from gilk.errors import UsageError
from gilk.image.model import Image, Span
from gilk.lang.d.probes import Description
from gilk.providers.probe import ProcessProbe, Site
from gilk.splice import points
from gilk.splice.points import Point
from gilk.target.base import Loaded
from gilk.target.process import Process

_OFFSET = re.compile(r"[0-9a-f]+\Z")

_STACK = tuple(f"d_word(regs, regs->rsp + {8 * n + 8}, 8)" for n in range(4))
_ENTRY = ("regs->rdi", "regs->rsi", "regs->rdx", "regs->rcx", "regs->r8", "regs->r9", *_STACK)
_RETURN = ("regs->rip - start", "regs->rax")


def probes(process: Process, description: Description) -> Iterator[ProcessProbe]:
    """Those that are meant; none when it is about something else."""
    provider = f"pid{process.pid}"
    if not fnmatch.fnmatchcase(provider, description.provider or "?"):
        return
    for loaded in process.loaded():
        if not loaded.is_meant(description.module):
            continue
        for span in _functions(process, loaded, description.function):
            for name, where in _places(process, loaded, span, description.name):
                module = "a.out" if loaded.main else loaded.name
                key, arguments = (provider, module, span.name, name), _RETURN if name == "return" else _ENTRY
                start = span.start + loaded.bias
                whole = name in ("entry", "return")
                sites = tuple(Site(loaded, part, point, arguments, start, whole) for part, point in where)
                yield ProcessProbe(key, sites)


def _functions(process: Process, loaded: Loaded, glob: str) -> list[Span]:
    try:
        return points.spans(process.image(loaded.path), glob or "*")
    except UsageError:
        return []


def _places(
    process: Process, loaded: Loaded, span: Span, name: str
) -> Iterator[tuple[str, tuple[tuple[int, Point], ...]]]:
    """Names of probes, with where they fire, each in the part of the function that begins there. Without a name: entry
    and return. Where a function begins is known without looking into it.
    """
    image = process.image(loaded.path)
    if not image.read(span.start, 1):
        return
    if not name or fnmatch.fnmatchcase("entry", name):
        yield "entry", ((span.start, points.entry(image.name, span)),)
    if name != "entry":
        yield from _inside(image, process.analysis(loaded), span, name)


def _inside(
    image: Image, analysis: Analysis, span: Span, name: str
) -> Iterator[tuple[str, tuple[tuple[int, Point], ...]]]:
    function = analysis.function(span)
    if not function.whole and (not name or fnmatch.fnmatchcase("return", name)):
        found = tuple((part.start, point) for part, point in points.returns(image, analysis, function))
        if found:
            yield "return", found
    if _OFFSET.match(name):
        try:
            where = points.points(image, analysis, function, f"+0x{name}")
            yield name, tuple((span.start, point) for point in where)
        except UsageError:
            return
