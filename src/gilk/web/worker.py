# SPDX-License-Identifier: LGPL-2.1-or-later
"""A worker of the server: it reads, analyses and plans, and changes nothing. It answers one question after the other.

python -m gilk.web.worker READING WRITING
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from gilk.api import scans
from gilk.api.runs import Request, parse_request, time
from gilk.errors import GilkError, UsageError
from gilk.render import graph_picture
from gilk.render.graph import to_json as graph_json
from gilk.render.names import learn, readable, with_names
from gilk.render.survey import REASONS
from gilk.web import search
from gilk.web.frames import Message, ServerChannel, ServerEnded, told
from gilk.web.search import SymbolRow

Json = dict[str, Any]


def images(target: str) -> Json:
    """The images of a target, each with whether there has been a survey of it."""
    return {
        "images": [
            {"name": each.name, "pattern": each.pattern, "path": each.path, "surveyed": _is_surveyed(target, each)}
            for each in scans.images(target)
        ]
    }


def _is_surveyed(target: str, image: scans.TargetImage) -> bool:
    try:
        return scans.surveyed(target, image) is not None
    except GilkError:
        return False


def symbols(target: str, image: str, query: str, sort: str, only: str, first: int) -> Json:
    """A page of the functions that match."""
    rows, surveyed = _rows(target, image)
    count, found = search.found(rows, query, sort, only, max(first, 0))
    return {
        "of": len(rows),
        "found": count,
        "first": first,
        "surveyed": surveyed,
        "rows": [_row(row) for row in found],
    }


def warm(target: str, image: str) -> Json:
    """Read the functions of an image, so that a search need not wait for that."""
    return {"of": len(_rows(target, image)[0])}


def _rows(target: str, image: str) -> tuple[tuple[SymbolRow, ...], bool]:
    """All functions of an image, or of all images for ``*``, and whether there are surveys of all of these."""
    chosen = [each for each in scans.images(target) if image in ("*", each.pattern)]
    if not chosen:
        raise UsageError("no-such-image", f"{target} has no image {image!r}", "the page of the target lists them")
    parts = [_of_image(target, each, _is_surveyed(target, each)) for each in chosen]
    return tuple(row for part in parts for row in part), all(_is_surveyed(target, each) for each in chosen)


@lru_cache(maxsize=64)
def _of_image(target: str, image: scans.TargetImage, surveyed: bool) -> tuple[SymbolRow, ...]:
    """The functions of an image. ``surveyed`` is an argument only for the cache: a survey may have been made since."""
    found = scans.symbols(target, image)
    table = scans.surveyed(target, image) if surveyed else None
    figures = search.figures_of(table) if table is not None else {}
    learn(symbol.name for symbol in found)
    return tuple(SymbolRow.of(image, each, readable(each.name), figures.get(each.address)) for each in found)


def _row(row: SymbolRow) -> Json:
    figures = row.figures
    return {
        "image": row.image.name,
        "pattern": row.image.pattern,
        "name": row.symbol.name,
        "shown": row.shown,
        "address": row.symbol.address,
        "size": row.symbol.size,
        "marker": row.marker,
        "blocks": figures.blocks if figures else None,
        "points": figures.points if figures else None,
        "refused": figures.refused if figures else None,
        "reasons": dict(figures.reasons) if figures else {},
    }


def survey(target: str, image: str) -> Json:
    """Analyse a whole image; its figures are kept."""
    chosen = next((each for each in scans.images(target) if each.pattern == image), None)
    if chosen is None:
        raise UsageError("no-such-image", f"{target} has no image {image!r}", "the page of the target lists them")
    found = scans.scan(target) if target == "kernel" else scans.scan(str(chosen.file))
    return {"functions": found.functions, "blocks": found.blocks, "refusals": found.refusals, "cached": found.cached}


def function(target: str, image: str, address: str) -> Json:
    """The graph of one function, with the places of its blocks and edges in a picture."""
    pattern = f"{image}:{address}" if image else address
    graph = scans.cfg(target, pattern)
    found = with_names(graph_json(graph))
    used = {point.name for node in graph.nodes for point in (node.pre, node.post) if point.refused}
    found["layout"] = graph_picture.to_json(graph_picture.picture(graph))
    found["reasons"] = {str(reason): text for reason, text in REASONS.items() if str(reason) in used}
    found["shown"] = readable(graph.function)
    return found


def preview(target: str, requests: list[str]) -> Json:
    """The outcome of every point that is requested."""
    parsed = [parse_request(text) for text in requests]
    if not all(isinstance(each, Request) for each in parsed):
        raise UsageError("strategy-not-live", "a preview is of points, not of strategies", "gilk run has them")
    wanted = [(each.spec, each.instrument == time) for each in parsed if isinstance(each, Request)]
    rows = scans.preview(target, wanted)
    return {
        "points": [
            {"point": row.point, "refused" if row.outcome.refused else "tactic": row.outcome.name} for row in rows
        ],
        "reasons": {row.outcome.name: str(REASONS[row.outcome.name]) for row in rows if row.outcome.refused},  # type: ignore[index]
    }


#: All questions that this worker answers.
ANSWERS: Final[Mapping[str, Callable[..., Json]]] = {
    "images": images, "warm": warm, "symbols": symbols, "survey": survey, "function": function, "preview": preview,
}  # fmt: skip


def answered(message: Message, answers: Mapping[str, Callable[..., Json]]) -> Message:
    try:
        return {"id": message["id"], "ok": answers[message["ask"]](**message["given"])}
    except GilkError as error:
        return {"id": message["id"], "error": told(error)}


def serve(channel: ServerChannel, answers: Mapping[str, Callable[..., Json]]) -> None:
    """Answer questions until the server ends."""
    try:
        while True:
            channel.send(answered(channel.receive(), answers))
    except ServerEnded:
        return


if __name__ == "__main__":
    serve(ServerChannel.given(), ANSWERS)
