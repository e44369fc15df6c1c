# SPDX-License-Identifier: LGPL-2.1-or-later
"""A function's control-flow graph as a picture: the places of its boxes and edges as JSON, and the whole picture as
SVG.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final
from xml.sax.saxutils import escape

from gilk.render.graph import assembly, ending, outcome
from gilk.render.layout import Arc, Box, Drawing, Route, draw
from gilk.render.names import named, readable
from gilk.render.text import cell
from gilk.splice.graph import Graph, GraphNode
from gilk.values import dataclass

LINE: Final = 16  # in pixels, from line to line
LETTER: Final = 7.3  # in pixels, for a monospaced font of 12 pixels
PAD: Final = 8
EDGE: Final = 18  # in pixels: the height of the strips at the top and the bottom of a box, which are its two points
_WIDEST: Final = 72  # in letters; a longer line ends with …
_COUNT: Final = 8  # in letters: the room for a count beside the name of the first point
_STYLE: Final = """
svg{font:12px ui-monospace,"DejaVu Sans Mono",monospace;background:#fff}rect{fill:#f7f8fa;stroke:#56606b}
.point{fill:#0b5d8a}.refused{fill:#a4262c}path{fill:none;stroke:#56606b;stroke-width:1.3}marker path{fill:#56606b}
.taken{stroke:#1a7f37}.not-taken{stroke:#a4262c}.table{stroke:#0b5d8a}.back{stroke-dasharray:6 3}
"""

Json = dict[str, Any]


@dataclass(frozen=True)
class GraphPicture:
    """The picture. ``texts``: the lines of each box, between its two points; ``kinds``: the kind of each route."""

    drawing: Drawing
    texts: tuple[tuple[str, ...], ...]
    kinds: tuple[str, ...]


def picture(graph: Graph) -> GraphPicture:
    texts = tuple(tuple(_texts(node)) for node in graph.nodes)
    links = [(Arc(node.index, edge.to), edge.kind) for node in graph.nodes for edge in node.edges]
    sizes = [_size(node, lines) for node, lines in zip(graph.nodes, texts, strict=True)]
    return GraphPicture(draw(sizes, [link for link, _ in links]), texts, tuple(kind for _, kind in links))


def _texts(node: GraphNode) -> Iterator[str]:
    yield from (_short(assembly(line)) for line in node.lines)
    if node.outside or not node.edges:
        yield _short(ending(node))


def _short(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _size(node: GraphNode, lines: Sequence[str]) -> tuple[int, int]:
    letters = max(len(_before(node)) + _COUNT, len(_after(node)), *map(len, lines))
    return int(2 * PAD + LETTER * letters), 2 * EDGE + LINE * len(lines)


def _before(node: GraphNode) -> str:
    pad = "  landing pad" if node.landing_pad else ""
    return f"@{node.index}:pre  {outcome(node.pre)}{pad}"


def _after(node: GraphNode) -> str:
    return f"@{node.index}:post  {outcome(node.post)}"


def to_json(shown: GraphPicture) -> Json:
    """The picture as JSON, in pixels. A box is [x, y, width, height], in the order of the blocks; a route has the
    corners of its line.
    """
    drawing = shown.drawing
    return {
        "width": drawing.width,
        "height": drawing.height,
        "line": LINE,
        "edge": EDGE,
        "boxes": [[box.x, box.y, box.width, box.height] for box in drawing.boxes],
        "texts": [list(lines) for lines in shown.texts],
        "routes": [
            {
                **{"from": route.link.source, "to": route.link.target, "kind": kind, "back": route.back},
                "points": [list(point) for point in route.points],
            }
            for route, kind in zip(drawing.routes, shown.kinds, strict=True)
        ],
    }


def to_svg(graph: Graph) -> str:
    """The picture as an SVG that needs no other file; ends with a newline."""
    shown = picture(graph)
    size = f'width="{shown.drawing.width}" height="{shown.drawing.height}"'
    title = f"{cell(graph.image)}:{named(readable(graph.function))}"
    blocks = zip(graph.nodes, shown.drawing.boxes, shown.texts, strict=True)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>',
        *(_route(route, kind) for route, kind in zip(shown.drawing.routes, shown.kinds, strict=True)),
        *(line for block in blocks for line in _box(*block)),
    ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _route(route: Route, kind: str) -> str:
    way = " ".join(f"{x} {y}" for x, y in route.points)
    name = f"{kind} back" if route.back else kind
    return f'<path class="{name}" d="M{way}" marker-end="url(#head)"/>'


def _box(node: GraphNode, box: Box, texts: Sequence[str]) -> Iterator[str]:
    yield f'<g class="block"><rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}"/>'
    yield _text(box, 0, _before(node), "refused" if node.pre.refused else "point")
    for number, text in enumerate(texts):
        yield _text(box, EDGE + LINE * number, text)
    yield _text(box, box.height - EDGE, _after(node), "refused" if node.post.refused else "point") + "</g>"


def _text(box: Box, top: int, text: str, kind: str = "") -> str:
    named_class = f' class="{kind}"' if kind else ""
    return f'<text{named_class} xml:space="preserve" x="{box.x + PAD}" y="{box.y + top + 13}">{escape(text)}</text>'
