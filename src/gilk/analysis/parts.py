# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds out which spans make up one function: compilers move rarely executed blocks away, to ``foo.cold``."""

from __future__ import annotations

import re
from typing import Final

from gilk.analysis.jumps import JumpTargets
from gilk.image.model import FunctionSpan, Image

Extents = tuple[tuple[int, int], ...]

_COLD: Final = re.compile(r"\.cold(\.\d+)?$")


class FunctionParts:
    """Pairs of a function and its cold part, found by name, or if names are missing by the jumps between them."""

    def __init__(self, image: Image, jumps: JumpTargets) -> None:
        self._extents: dict[int, set[tuple[int, int]]] = {}
        self._wholes: dict[int, int] = {}
        starts = {span.start for span in image.spans}
        for source, target in zip(jumps.sources.tolist(), jumps.targets.tolist(), strict=True):
            ours, theirs = image.span_at(source), image.span_at(target)
            if ours is None or theirs is None or ours == theirs:
                continue
            if _is_cold_of(ours, theirs) or _returns_amid(ours, target, starts):
                self._join(ours, theirs)
            elif _is_cold_of(theirs, ours):
                self._join(theirs, ours)

    def of(self, span: FunctionSpan) -> Extents:
        """The other extents (start, end) of the function that ``span`` belongs to."""
        return self.of_address(span.start)

    def of_address(self, start: int) -> Extents:
        """The other extents (start, end) of the function that has an extent at ``start``."""
        return tuple(sorted(self._extents.get(start, ())))

    def whole(self, span: FunctionSpan) -> int:
        """The start of the function that ``span`` is a part of; 0 if it is a function itself."""
        whole = self._wholes.get(span.start, 0)
        return 0 if self._wholes.get(whole) == span.start else whole

    def _join(self, part: FunctionSpan, whole: FunctionSpan) -> None:
        self._extents.setdefault(part.start, set()).add((whole.start, whole.end))
        self._extents.setdefault(whole.start, set()).add((part.start, part.end))
        self._wholes.setdefault(part.start, whole.start)


def is_cold(span: FunctionSpan) -> bool:
    """Whether the span's name says that it is a part of another function."""
    return any(_COLD.search(name) for name in _names(span))


def _is_cold_of(span: FunctionSpan, parent: FunctionSpan) -> bool:
    """Whether ``span`` is ``foo.cold`` and ``parent`` is ``foo``. One jumps to the other, so ``parent`` is the right
    one even if several functions have that name.
    """
    return any(_COLD.sub("", name) in (parent.name, *parent.aliases) for name in _names(span) if _COLD.search(name))


def _names(span: FunctionSpan) -> tuple[str, ...]:
    return (span.name, *span.aliases)


def _returns_amid(span: FunctionSpan, target: int, starts: set[int]) -> bool:
    """Whether a span without a name jumps into the middle of another function: only a part of that function does so."""
    return span.source == "eh_frame" and target not in starts
