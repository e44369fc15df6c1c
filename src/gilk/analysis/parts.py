# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which spans are one function: compilers move rarely executed blocks away, to ``foo.cold``."""

from __future__ import annotations

import re
from typing import Final

from gilk.analysis.jumps import JumpTargets
from gilk.image.model import FunctionSpan, Image

Extents = tuple[tuple[int, int], ...]

_COLD: Final = re.compile(r"\.cold(\.\d+)?$")


class FunctionParts:
    """Pairs of a function and its cold part, by name, or where names are missing by the jumps between them."""

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
        """The other extents of the function whose bytes ``span`` holds."""
        return self.of_address(span.start)

    def of_address(self, start: int) -> Extents:
        """The other extents of the function that begins at ``start``."""
        return tuple(sorted(self._extents.get(start, ())))

    def whole(self, span: FunctionSpan) -> int:
        """Start of the function that ``span`` is a part of; 0 when it is a function itself."""
        whole = self._wholes.get(span.start, 0)
        return 0 if self._wholes.get(whole) == span.start else whole

    def _join(self, part: FunctionSpan, whole: FunctionSpan) -> None:
        self._extents.setdefault(part.start, set()).add((whole.start, whole.end))
        self._extents.setdefault(whole.start, set()).add((part.start, part.end))
        self._wholes.setdefault(part.start, whole.start)


def is_cold(span: FunctionSpan) -> bool:
    """Whether its name says that it is part of another function."""
    return any(_COLD.search(name) for name in _names(span))


def _is_cold_of(span: FunctionSpan, parent: FunctionSpan) -> bool:
    """``foo.cold`` of ``foo``, whichever of several functions of that name it is: one jumps to the other."""
    return any(_COLD.sub("", name) in (parent.name, *parent.aliases) for name in _names(span) if _COLD.search(name))


def _names(span: FunctionSpan) -> tuple[str, ...]:
    return (span.name, *span.aliases)


def _returns_amid(span: FunctionSpan, target: int, starts: set[int]) -> bool:
    """A jump from a nameless span into the middle of a function: only a part of it does that."""
    return span.source == "eh_frame" and target not in starts
