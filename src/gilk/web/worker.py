# SPDX-License-Identifier: LGPL-2.1-or-later
"""A worker of the server: it reads, analyses and plans, and changes nothing. It answers one question after the other.

python -m gilk.web.worker READING WRITING GRANTS
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gilk.api import scans
from gilk.api.live import parse_live
from gilk.errors import GilkError, UsageError
from gilk.render import graph_picture
from gilk.render.graph import to_json as graph_json
from gilk.render.names import learn, readable, with_names
from gilk.render.survey import REASONS
from gilk.spec.point import Spec
from gilk.web import search
from gilk.web.checked import Check, checked, of_target
from gilk.web.frames import Answers, ServerChannel
from gilk.web.grants import KERNEL, taken
from gilk.web.limited import limited
from gilk.web.search import SymbolRow
from gilk.web.serving import serve

if TYPE_CHECKING:
    from gilk.api.watched_kernel import KernelSubject

Json = dict[str, Any]
Places = dict[tuple[str, int], list[int]]  # by a function's image and address, the distances of a line's places from it
_SEARCH_WITHIN: Final = 5.0  # in seconds; an expression of the user's may take for ever


class LookAnswers:
    """The answers to all questions of a worker. ``kernel``: the kernel that ``kernel`` means, if not this machine's."""

    def __init__(self, kernel: KernelSubject | None = None) -> None:
        self._kernel = kernel
        self._of_image = lru_cache(maxsize=64)(self._read)
        self._kept_graph = lru_cache(maxsize=16)(self._graph)

    def answers(self) -> Answers:
        return {each.__name__: each for each in (self.images, self.symbols, self.survey, self.function, self.preview)}

    def images(self, target: str) -> Json:
        """The images of a target, each with whether there has been a survey of it."""
        return {
            "images": [
                {
                    "name": each.name, "pattern": each.pattern, "path": each.path,
                    "surveyed": self._is_surveyed(target, each),
                }
                for each in scans.images(target, self._kernel)
            ]
        }  # fmt: skip

    def _is_surveyed(self, target: str, image: scans.TargetImage) -> bool:
        try:
            return scans.surveyed(target, image, self._kernel) is not None
        except GilkError:
            return False

    def symbols(self, target: str, image: str, query: str, sort: str, only: str, first: int) -> Json:
        """A page of the functions that match."""
        rows, surveyed = self._rows(target, image)
        of, line = len(rows), search.line_of(query)
        places: Places = {}
        if line is not None:
            places = self._places(target, image, line)
            rows, query = tuple(row for row in rows if _key(row) in places), ""
        with limited(_SEARCH_WITHIN, _too_slow()):
            count, found = search.found(rows, query, sort, only, max(first, 0))
        return {
            "of": of,
            "found": count,
            "first": first,
            "surveyed": surveyed,
            "line": "" if line is None else str(replace(line, image=line.image or image)),
            "rows": [
                {
                    **_row(row), "point": _point(target, row.image.pattern, row.symbol.name),
                    "places": [_place(row, offset) for offset in places.get(_key(row), [])],
                }
                for row in found
            ],
        }  # fmt: skip

    def _places(self, target: str, image: str, line: Spec) -> Places:
        """The places of a line in an image, or in all images for ``*``."""
        chosen = [each for each in scans.images(target, self._kernel) if image in ("*", each.pattern)]
        found: Places = {}
        for point in scans.line_points(target, chosen, line):
            found.setdefault((point.image.pattern, point.function), []).append(point.offset)
        return found

    def _rows(self, target: str, image: str) -> tuple[tuple[SymbolRow, ...], bool]:
        """All functions of an image, or of all images for ``*``, and whether there are surveys of all of these."""
        chosen = [each for each in scans.images(target, self._kernel) if image in ("*", each.pattern)]
        if not chosen:
            raise _no_image(target, image)
        surveyed = [self._is_surveyed(target, each) for each in chosen]
        parts = [self._of_image(target, *each) for each in zip(chosen, surveyed, strict=True)]
        return parts[0] if len(parts) == 1 else tuple(row for part in parts for row in part), all(surveyed)

    def _read(self, target: str, image: scans.TargetImage, surveyed: bool) -> tuple[SymbolRow, ...]:
        """The functions of an image. ``surveyed`` is an argument only for the cache: a survey may have been made
        since."""
        found = scans.symbols(target, image, self._kernel)
        table = scans.surveyed(target, image, self._kernel) if surveyed else None
        figures = search.figures_of(table) if table is not None else {}
        learn(symbol.name for symbol in found)
        return tuple(SymbolRow.of(image, each, readable(each.name), figures.get(each.address)) for each in found)

    def survey(self, target: str, image: str) -> Json:
        """Analyse a whole image; its figures are kept."""
        chosen = next((each for each in scans.images(target, self._kernel) if each.pattern == image), None)
        if chosen is None:
            raise _no_image(target, image)
        if target == KERNEL:
            link = self._kernel.link if self._kernel is not None else None
            found = scans.scan(target, link=link)
        else:
            found = scans.scan(str(chosen.file))
        return {
            "functions": found.functions, "blocks": found.blocks, "refusals": found.refusals, "cached": found.cached
        }  # fmt: skip

    def function(self, target: str, image: str, address: str) -> Json:
        """The graph of one function, with the places of its blocks and edges in a picture. ``point`` and ``label`` are
        how its points begin in requests and in reports. It is kept for the next question, such as that for its source.
        """
        return self._kept_graph(target, image, address, self._state_of(target))

    def _state_of(self, target: str) -> object:
        """A value that is another one when a graph of the target may be another one."""
        if target == KERNEL:
            return self if self._kernel is not None else object()
        found = scans.images(target)
        return tuple((each, _stamp(each.file)) for each in found)

    def _graph(self, target: str, image: str, address: str, _state: object) -> Json:
        pattern = f"{image}:{address}" if image else address
        graph = scans.cfg(target, pattern, kernel=self._kernel)
        found = with_names(graph_json(graph))
        used = {point.name for node in graph.nodes for point in (node.pre, node.post) if point.refused}
        found["layout"] = graph_picture.to_json(graph_picture.picture(graph))
        found["reasons"] = {str(reason): text for reason, text in REASONS.items() if str(reason) in used}
        found["shown"] = readable(graph.function)
        found["at"], found["size"] = f"{graph.start:#x}", graph.end - graph.start
        found["point"] = _point(target, image, graph.function)
        found["label"] = found["point"] if target == KERNEL else f"{graph.image}:{graph.function}"
        return found

    def preview(self, target: str, requests: list[str]) -> Json:
        """The outcome of every point that is requested."""
        wanted = [parse_live(text) for text in requests]
        rows = scans.preview(target, wanted, self._kernel)
        return {
            "points": [
                {"point": row.point, "refused" if row.outcome.refused else "tactic": row.outcome.name} for row in rows
            ],
            "reasons": {row.outcome.name: str(REASONS[row.outcome.name]) for row in rows if row.outcome.refused},  # type: ignore[index]
        }


def _stamp(path: Path) -> tuple[int, ...]:
    """A value that changes when the file does; () if there is none."""
    try:
        about = path.stat()
    except OSError:
        return ()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _no_image(target: str, image: str) -> UsageError:
    return UsageError("no-such-image", f"{target} has no image {image!r}", "the page of the target lists them")


def _too_slow() -> UsageError:
    hint = "an expression that looks back may take for ever; a glob does not"
    return UsageError("search-too-slow", "the search was given up", hint)


def _point(target: str, image: str, name: str) -> str:
    """The beginning of points in a function. In a kernel, ``kernel`` stands for it and for all of its modules."""
    image = KERNEL if target == KERNEL else image
    return f"{image}:{name}" if image else name


def _key(row: SymbolRow) -> tuple[str, int]:
    return row.image.pattern, row.symbol.address


def _place(row: SymbolRow, offset: int) -> Json:
    """A place of a line in a function: ``where`` as points have it, and ``at``, its address as text."""
    return {"where": f"+{offset:#x}", "at": f"{row.symbol.address + offset:#x}"}


def _row(row: SymbolRow) -> Json:
    figures = row.figures
    return {
        "image": row.image.name,
        "pattern": row.image.pattern,
        "name": row.symbol.name,
        "shown": row.shown,
        "address": row.symbol.address,
        "at": f"{row.symbol.address:#x}",  # a browser's numbers have no room for addresses in a kernel
        "size": row.symbol.size,
        "marker": row.marker,
        "blocks": figures.blocks if figures else None,
        "points": figures.points if figures else None,
        "refused": figures.refused if figures else None,
        "reasons": dict(figures.reasons) if figures else {},
    }


CHECKS: Final[Mapping[str, Check]] = dict.fromkeys(("images", "symbols", "survey", "function", "preview"), of_target)


if __name__ == "__main__":
    serve(ServerChannel.given(), checked(taken(), LookAnswers().answers(), CHECKS))
