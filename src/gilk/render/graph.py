# SPDX-License-Identifier: LGPL-2.1-or-later
"""A function's control-flow graph as text, as JSON and in Graphviz's language."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from gilk.render.names import named, readable, readable_in
from gilk.render.text import cell, plural
from gilk.splice.graph import Graph, GraphNode, ListingLine, PointOutcome

Json = dict[str, Any]

_CODE_WIDTH: Final = 30  # in columns: ten bytes
_COLOURS: Final = {"taken": "darkgreen", "not-taken": "firebrick", "table": "royalblue"}
_ENDS: Final = {
    "fall": "falls through",
    "jump": "jumps",
    "branch": "branches",
    "tail": "leaves the function",
    "table": "jumps by a table",
    "indirect": "jumps where it is not known",
    "tail-indirect": "leaves the function by a pointer",
    "return": "returns",
    "noreturn": "calls what does not return",
    "stop": "stops",
}


def to_text(graph: Graph) -> str:
    """The graph as text, block by block, with the points and their tactics among the instructions; ends with
    a newline.
    """
    return "\n".join([*_heading(graph), *(line for node in graph.nodes for line in ("", *_block(graph, node)))]) + "\n"


def _heading(graph: Graph) -> Iterator[str]:
    size = f"{plural(graph.end - graph.start, 'byte')}, {plural(len(graph.nodes), 'block')}"
    loaded = f", loaded at {graph.bias:#x}" if graph.bias else ""
    yield f"{cell(graph.image)}:{named(graph.function)}  {graph.start:#x}-{graph.end:#x}, {size}{loaded}"
    others = _other_names(graph)
    if others:
        yield f"also called {cell(', '.join(others))}"
    for start, end in graph.parts:
        yield f"a part of it lies at {start:#x}-{end:#x}"


def _other_names(graph: Graph) -> list[str]:
    """The other names of the function, as in the source and as the linker has them."""
    names = dict.fromkeys((graph.function, *map(readable, graph.aliases), *graph.aliases))
    return [name for name in names if name != readable(graph.function)]


def _block(graph: Graph, node: GraphNode) -> Iterator[str]:
    pad = "  landing pad" if node.landing_pad else ""
    yield f"@{node.index}  {node.start:#x}-{node.end:#x}{pad}  live: {' '.join(node.live) or 'nothing'}"
    yield f"    @{node.index}:pre   {outcome(node.pre)}"
    before = ""
    for line in node.lines:
        if line.address == node.post_address:
            yield f"    @{node.index}:post  {outcome(node.post)}"
        if line.source != before:
            before = line.source
            yield f"      {cell(PurePosixPath(before).name) or 'no line'}"
        yield _instruction(line)
    if node.post_address == node.end:
        yield f"    @{node.index}:post  {outcome(node.post)}"
    yield f"    {ending(node)}"


def outcome(found: PointOutcome) -> str:
    return f"refused: {found.name}" if found.refused else found.name


def _instruction(line: ListingLine) -> str:
    code = line.code.hex(" ").ljust(_CODE_WIDTH - 1)
    return f"    {line.address:8x}  {code} {assembly(line)}"


def assembly(line: ListingLine) -> str:
    """An instruction, and the name of the address that it refers to, if that has one."""
    return f"{line.text}  ; {named(line.symbol)}" if line.symbol else line.text


def ending(node: GraphNode) -> str:
    """How a block ends, and where control goes then."""
    ways = [f"@{edge.to} {edge.kind}" if edge.kind.endswith("taken") else f"@{edge.to}" for edge in node.edges]
    if node.outside:
        ways.append(named(node.outside))
    return f"{_ENDS[node.how]} -> {', '.join(ways)}" if ways else _ENDS[node.how]


def to_json(graph: Graph) -> Json:
    """The graph as JSON: the blocks with their instructions, and all edges."""
    return {
        "image": graph.image,
        "function": graph.function,
        "aliases": list(graph.aliases),
        "start": graph.start,
        "end": graph.end,
        "bias": graph.bias,
        "parts": [list(part) for part in graph.parts],
        "blocks": [_node(node) for node in graph.nodes],
        "edges": [{"from": n.index, "to": e.to, "kind": e.kind} for n in graph.nodes for e in n.edges],
    }


def _node(node: GraphNode) -> Json:
    return {
        "index": node.index,
        "start": node.start,
        "end": node.end,
        "how": node.how,
        "landing_pad": node.landing_pad,
        "outside": node.outside,
        "live": list(node.live),
        "points": {"pre": _point(node.pre), "post": {**_point(node.post), "address": node.post_address}},
        "instructions": [
            {
                **{"address": line.address, "bytes": line.code.hex(), "text": line.text, "symbol": line.symbol},
                **({"source": line.source} if line.source else {}),
            }
            for line in node.lines
        ],
    }


def _point(outcome: PointOutcome) -> Json:
    return {"refused" if outcome.refused else "tactic": outcome.name}


def to_dot(graph: Graph) -> str:
    """The graph in Graphviz's language: a box for each block, with its instructions aligned to the left."""
    lines = [
        f"digraph {_quoted(readable(graph.function))} {{",
        f"  label={_quoted(f'{graph.image}:{readable(graph.function)}')};",
        '  node [shape=box, fontname="monospace", fontsize=10];',
        '  edge [fontname="monospace", fontsize=9];',
    ]
    for node in graph.nodes:
        lines.append(f"  b{node.index} [label={_label(node)}];")
        lines += [f"  b{node.index} -> b{e.to}{_style(e.kind)};" for e in node.edges]
        if node.outside:
            lines.append(f"  o{node.index} [label={_quoted(readable_in(node.outside))}, shape=plaintext];")
            lines.append(f"  b{node.index} -> o{node.index} [style=dashed];")
    return "\n".join([*lines, "}"]) + "\n"


def _style(kind: str) -> str:
    colour = _COLOURS.get(kind)
    return f' [color={colour}, tooltip="{kind}"]' if colour else ""


def _label(node: GraphNode) -> str:
    rows = [f"@{node.index}  pre: {outcome(node.pre)}  post: {outcome(node.post)}"]
    rows += [f"{line.address:x}  {assembly(line)}" for line in node.lines]
    if not node.edges and not node.outside:
        rows.append(_ENDS[node.how])
    return '"' + "".join(_escaped(row) + r"\l" for row in rows) + '"'


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    r"""The text for use in a quoted string: Graphviz reads \", and in labels further escapes such as \N and \l."""
    return cell(text).replace("\\", "\\\\").replace('"', '\\"')
