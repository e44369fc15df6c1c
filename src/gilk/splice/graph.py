# SPDX-License-Identifier: LGPL-2.1-or-later
"""The control-flow graph of one function as values to be drawn: instructions, edges, points and their tactics."""

from __future__ import annotations

from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class PointOutcome:
    """The outcome of a point: a tactic, or when ``refused`` the reason."""

    name: str
    refused: bool


@dataclass(frozen=True, slots=True)
class Edge:
    """To block ``to``. ``kind``: fall, jump, taken, not-taken or table."""

    to: int
    kind: str


@dataclass(frozen=True, slots=True)
class ListingLine:
    """An instruction; ``symbol`` names what it refers to, if that has a name. ``source`` is its file and line, '' where
    nothing is known of that."""

    address: int
    code: bytes
    text: str
    symbol: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A block. ``how`` it ends: a name of analysis.model.End, with hyphens.

    ``outside`` names where it leads out of the function; ``live`` what is live at its head; the post-point lies before
    the instruction at ``post_address``, or behind the last when that is the block's end.
    """

    index: int
    start: int
    end: int
    how: str
    landing_pad: bool
    live: tuple[str, ...]
    lines: tuple[ListingLine, ...]
    edges: tuple[Edge, ...]
    outside: str
    pre: PointOutcome
    post: PointOutcome
    post_address: int


@dataclass(frozen=True, slots=True)
class Graph:
    """A function. Addresses are link-time; ``bias`` is what the loader added, 0 for a file."""

    image: str
    function: str
    aliases: tuple[str, ...]
    start: int
    end: int
    bias: int
    parts: tuple[tuple[int, int], ...]
    nodes: tuple[GraphNode, ...]

    def __repr__(self) -> str:
        return f"<Graph of {self.image}:{self.function}: {len(self.nodes)} blocks>"
