# SPDX-License-Identifier: LGPL-2.1-or-later
"""Limits for the size and height of a checked item: inlines that contain inlines can double with every line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from gilk.lang.d.depth import HEIGHT, too_deep
from gilk.lang.d.tags import SyntaxTag
from gilk.lang.syntax.source import Rejected, Span

_MOST = 1 << 18  # nodes of one item


class Measure(NamedTuple):
    nodes: int
    height: int


NOTHING = Measure(0, 0)


class Extent:
    """A counter of the nodes of the item that is being checked, and of their depth."""

    def __init__(self) -> None:
        self._nodes = self._level = self._peak = 0

    def begin(self) -> None:
        self._nodes = self._level = self._peak = 0

    def measure(self) -> Measure:
        """The measure of all that has been checked since begin()."""
        return Measure(self._nodes, self._peak)

    @contextmanager
    def node(self, span: Span) -> Iterator[None]:
        """Count a node, and what is checked inside of the block as nested in it. Raises Rejected."""
        self.add(Measure(1, 1), span)
        self._level += 1
        yield
        self._level -= 1

    def add(self, what: Measure, span: Span) -> None:
        """Count an expression whose measure is known. Raises Rejected."""
        self._nodes += what.nodes
        self._peak = max(self._peak, self._level + what.height)
        if self._peak > HEIGHT:
            raise too_deep(span)
        if self._nodes > _MOST:
            raise Rejected(SyntaxTag.D_SYNTAX, span, "too large, with what its inlines stand for")
