# SPDX-License-Identifier: LGPL-2.1-or-later
"""The control-flow graph of one function as values to be drawn: instructions, edges, points and their tactics."""

from __future__ import annotations

from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class PointOutcome:
    """The outcome of planning a point: ``name`` is a tactic, or if ``refused`` the reason for the refusal."""

    name: str
    refused: bool


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of the graph to the block with index ``to``. ``kind``: fall, jump, taken, not-taken or table."""

    to: int
    kind: str


@dataclass(frozen=True, slots=True)
class ListingLine:
    """An instruction. ``symbol`` is the name of the address that it refers to, '' if that has none; ``source`` is its
    file and line, '' if they are not known.
    """

    address: int
    code: bytes
    text: str
    symbol: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A block. ``how`` is the way it ends: a name of analysis.model.End, with hyphens.

    ``outside`` is the name of the place outside of the function that the block leads to; ``live`` are the registers
    that are live at its head. The post-point lies before the instruction at ``post_address``, or behind the last
    instruction if that is the block's end.
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
    """The graph of a function. Addresses are link-time; ``bias`` is what the loader added, 0 for a file."""

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
