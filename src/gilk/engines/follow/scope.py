# SPDX-License-Identifier: LGPL-2.1-or-later
"""The scope of a trace: globs for images and functions to follow, and for those to leave out."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from gilk.errors import UsageError
from gilk.image import lookup
from gilk.image.model import Image
from gilk.session.request import Builtin, Wanted, probes_at
from gilk.spec import functions
from gilk.spec.functions import FunctionPattern
from gilk.splice import points
from gilk.targets.base import Code, Loaded
from gilk.values import dataclass


def glob(text: str) -> FunctionPattern:
    """Read ``[IMAGE:]FUNCTION``, or ``IMAGE:`` for all of an image; without an image, functions of any image match.

    Raises UsageError `bad-scope`.
    """
    image, function = functions.split(text) or ("", "")
    if not (image or function):
        raise UsageError("bad-scope", f"{text!r} is not [IMAGE:]FUNCTION", "for example 'libfoo*:' or '*:parse_*'")
    return FunctionPattern(image or "*", function or "*")


@dataclass(frozen=True)
class TraceScope:
    """The functions that match one of ``included`` (if that is empty, all) and none of ``excluded``."""

    included: tuple[FunctionPattern, ...] = ()
    excluded: tuple[FunctionPattern, ...] = ()

    @classmethod
    def parse(cls, included: Iterable[str], excluded: Iterable[str] = ()) -> TraceScope:
        """Read the globs of a scope. Raises UsageError `bad-scope`."""
        return cls(tuple(glob(text) for text in included), tuple(glob(text) for text in excluded))

    def __str__(self) -> str:
        words = [str(g) for g in self.included]
        words += [f"not {g}" for g in self.excluded]
        return ", ".join(words)

    def takes_image(self, loaded: Loaded) -> bool:
        """Whether functions of the image may be in the scope."""
        whole = any(g.function == "*" and loaded.is_meant(g.image) for g in self.excluded)
        return not whole and (not self.included or any(loaded.is_meant(g.image) for g in self.included))

    def awaits(self, images: Iterable[Loaded]) -> bool:
        """Whether the scope names an image that is not among ``images``, which the program may still open."""
        present = tuple(images)
        return any(not any(loaded.is_meant(g.image) for loaded in present) for g in self.included)

    def starts(self, loaded: Loaded, image: Image) -> set[int]:
        """The starts of the functions of an image that are in the scope."""
        return self.starts_and_met(loaded, image)[0]

    def starts_and_met(self, loaded: Loaded, image: Image) -> tuple[set[int], set[FunctionPattern]]:
        """The starts of the functions of an image that are in the scope, and the globs for which it has functions."""
        every = (FunctionPattern("*", "*"),)
        found = {each: _starts((each,), loaded, image) for each in self.included or every}
        starts = set[int]().union(*found.values()) - _starts(self.excluded, loaded, image)
        return starts, {each for each, some in found.items() if some}


def _starts(globs: Iterable[FunctionPattern], loaded: Loaded, image: Image) -> set[int]:
    meant = [glob for glob in globs if loaded.is_meant(glob.image)]
    return {span.start for glob in meant for span in lookup.matching(image, glob.function)}


def calls(process: Code, loaded: Loaded, starts: Container[int]) -> Iterator[list[Wanted]]:
    """The entry, then the returns, of each function that begins at one of ``starts``, with the instrument `time`."""
    image, analysis = process.image(loaded.path), process.analysis(loaded)
    for span in image.spans:
        if span.start not in starts:
            continue
        function = analysis.function(span)
        if not function.blocks or function.whole:
            continue
        for entry in points.points(image, analysis, function, "entry"):
            yield list(probes_at(process, loaded, function, entry, Builtin.TIME))
