# SPDX-License-Identifier: LGPL-2.1-or-later
"""The places where functions are inlined: their calls have no entry to be counted at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from gilk.analysis.model import Function
from gilk.errors import ImageError
from gilk.image.demangle import readable_in
from gilk.image.lookup import goes_by, is_exact
from gilk.image.model import Image
from gilk.image.stripped import remark
from gilk.targets.base import Code, Loaded
from gilk.trace.probes import Inlined

_MOST_PLACES = 1000  # that are listed
_MOST_FUNCTIONS = 20  # that are looked up at the end of a run


def inlined(code: Code, loaded: Loaded, name: str) -> Inlined | None:
    """Where ``name`` is inlined in an image; None where it is not, or where nothing is known of that."""
    from gilk.image.dwarf import sections  # here: hardly anybody asks
    from gilk.image.dwarf.entries import Entries
    from gilk.image.dwarf.inlined import copies

    try:
        debug = sections.read(loaded.path)
        found = copies(Entries(debug), name) if debug is not None else None
        image = code.image(loaded.path)
    except ImageError:
        return None
    if found is None or not found.found:
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
