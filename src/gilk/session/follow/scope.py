# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which functions a trace follows: globs over images and functions, and what is left out of them."""

from __future__ import annotations

import fnmatch
from collections.abc import Container, Iterable, Iterator

from gilk.errors import UsageError
from gilk.session.request import Builtin, Wanted, probes_at
from gilk.splice import points
from gilk.target.base import Loaded, Target
from gilk.values import dataclass


@dataclass(frozen=True)
class Glob:
    """``[IMAGE:]FUNCTION``, or ``IMAGE:`` for all of an image; without an image, functions of any."""

    image: str
    function: str

    def takes_image(self, loaded: Loaded) -> bool:
        return fnmatch.fnmatchcase(loaded.name, self.image) or loaded.name.split(".")[0] == self.image

    def takes(self, loaded: Loaded, names: Iterable[str]) -> bool:
        return self.takes_image(loaded) and any(fnmatch.fnmatchcase(name, self.function) for name in names)


def glob(text: str) -> Glob:
    """Raises UsageError `bad-scope`."""
    image, colon, function = text.rpartition(":")
    if not text or (colon and not image):
        raise UsageError("bad-scope", f"{text!r} is not [IMAGE:]FUNCTION", "for example 'libfoo*:' or '*:parse_*'")
    return Glob(image or "*", function or "*")


@dataclass(frozen=True)
class Scope:
    """What matches one of ``included`` (everything, when there is none) and none of ``excluded``."""

    included: tuple[Glob, ...] = ()
    excluded: tuple[Glob, ...] = ()

    @classmethod
    def parse(cls, included: Iterable[str], excluded: Iterable[str] = ()) -> Scope:
        """Raises UsageError `bad-scope`."""
        return cls(tuple(glob(text) for text in included), tuple(glob(text) for text in excluded))

    def __str__(self) -> str:
        words = [f"{g.image}:{g.function}" for g in self.included]
        words += [f"not {g.image}:{g.function}" for g in self.excluded]
        return ", ".join(words)

    def takes_image(self, loaded: Loaded) -> bool:
        """Whether any function of it may be in the scope."""
        whole = any(g.function == "*" and g.takes_image(loaded) for g in self.excluded)
        return not whole and (not self.included or any(g.takes_image(loaded) for g in self.included))

    def takes(self, loaded: Loaded, names: Iterable[str]) -> bool:
        names = tuple(names)
        return (not self.included or any(g.takes(loaded, names) for g in self.included)) and not any(
            g.takes(loaded, names) for g in self.excluded
        )


def calls(process: Target, loaded: Loaded, scope: Scope, starts: Container[int]) -> Iterator[list[Wanted]]:
    """For each function of an image that is in the scope and begins at one of ``starts``: the timing of its entry, then
    of its returns.
    """
    image, analysis = process.image(loaded.path), process.analysis(loaded)
    for span in image.spans:
        if span.start not in starts or not scope.takes(loaded, (span.name, *span.aliases)):
            continue
        function = analysis.function(span)
        if not function.blocks or function.whole:
            continue
        for entry in points.points(image, analysis, function, "entry"):
            yield list(probes_at(process, loaded, function, entry, Builtin.TIME))
