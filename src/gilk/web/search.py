# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds functions while the user types: by a part of the name, by a glob, by ``/expression/``, by an address, by a line
of the source.
"""

from __future__ import annotations

import fnmatch
import heapq
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from gilk.api.scans import FunctionSymbol, SurveyTable, TargetImage
from gilk.errors import UsageError
from gilk.render.survey import REASONS
from gilk.spec.image import is_glob
from gilk.spec.point import Spec, parse
from gilk.values import dataclass

PAGE: Final = 200  # the number of rows of a page
_LONGEST: Final = 200  # the most characters of a query
SORTS: Final = ("match", "name", "address", "size", "blocks", "refused")


@dataclass(frozen=True, slots=True)
class SymbolFigures:
    """The findings of a survey about a function: the number of points before and after blocks, and of those that are
    refused, in all and by reason.
    """

    blocks: int
    points: int
    refused: int
    reasons: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class SymbolRow:
    """A function that can be found. ``shown`` is its name in the source. ``lower``: all its names in lower case, a line
    each. ``figures`` is None before a survey.
    """

    image: TargetImage
    symbol: FunctionSymbol
    shown: str
    lower: str
    figures: SymbolFigures | None

    @classmethod
    def of(
        cls, image: TargetImage, symbol: FunctionSymbol, shown: str, figures: SymbolFigures | None = None
    ) -> SymbolRow:
        names = shown if shown == symbol.name else f"{shown}\n{symbol.name}"
        return cls(image, symbol, shown, names.lower(), figures)

    @property
    def marker(self) -> str:
        """A word for the part of its points that can be spliced: not-analysed, none, some or all."""
        if self.figures is None:
            return "not-analysed"
        if not self.figures.points or self.figures.refused == self.figures.points:
            return "none"
        return "some" if self.figures.refused else "all"


def figures_of(table: SurveyTable) -> dict[int, SymbolFigures]:
    """The figures of all functions in a survey, by address."""
    found = {}
    for row in table.rows(""):
        points = sum(row.pre.values()) + sum(row.post.values())
        reasons = {name: row.pre.get(name, 0) + row.post.get(name, 0) for name in {**row.pre, **row.post}}
        refused = tuple((name, count) for name, count in reasons.items() if name in _REFUSALS)
        found[row.address] = SymbolFigures(row.blocks, points, sum(count for _, count in refused), refused)
    return found


def found(
    rows: Sequence[SymbolRow], query: str, sort: str, only: str = "", first: int = 0
) -> tuple[int, list[SymbolRow]]:
    """The number of rows that match, and a page of them from ``first`` on, the best match first. ``only``: rows with
    this marker.

    Raises UsageError `bad-search`.
    """
    query = query.strip()
    if len(query) > _LONGEST or sort not in SORTS:
        raise UsageError("bad-search", f"a search has {_LONGEST} letters at most, and is sorted by {', '.join(SORTS)}")
    chosen = list(_matching(rows, query))
    if only:
        chosen = [row for row in chosen if row.marker == only]
    if sort != "match" or query:
        # One letter matches most names, so only as many rows as a page needs are sorted.
        last, order = first + PAGE, _order(sort, query)
        return len(chosen), heapq.nsmallest(last, chosen, key=order)[first:]
    return len(chosen), chosen[first : first + PAGE]


def line_of(query: str) -> Spec | None:
    """The line of the source that a query means, ``[IMAGE:]FILE:LINE`` as in points; None if it means none."""
    try:
        spec = parse(query.strip()[: _LONGEST + 1])
    except UsageError:
        return None
    return spec if spec.line else None


def _matching(rows: Sequence[SymbolRow], query: str) -> Iterator[SymbolRow]:
    if not query:
        yield from rows
    elif query.lower().startswith("0x"):
        address = _number(query)
        yield from (r for r in rows if r.symbol.address <= address < r.symbol.address + max(r.symbol.size, 1))
    elif len(query) > 1 and query[0] == query[-1] == "/":
        search = _expression(query[1:-1]).search
        yield from (row for row in rows if search(row.shown) or search(row.symbol.name))
    elif is_glob(query):
        match = re.compile(fnmatch.translate(query), re.IGNORECASE).match
        yield from (row for row in rows if match(row.shown) or match(row.symbol.name))
    else:
        yield from _containing(rows, query.lower())


def _containing(rows: Sequence[SymbolRow], query: str) -> list[SymbolRow]:
    """The rows with names that contain the query; if there are none, those with names that have its letters in their
    order.
    """
    whole = [row for row in rows if query in row.lower]
    if whole:
        return whole
    search = re.compile(".*?".join(map(re.escape, query))).search
    return [row for row in rows if search(row.lower)]


def _number(query: str) -> int:
    try:
        return int(query, 16)
    except ValueError:
        raise UsageError("bad-search", f"{query!r} is no address", "for example 0x2f130") from None


def _expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError("bad-search", f"/{text}/: {error}", "as Python's re has them") from None


def _order(sort: str, query: str) -> Callable[[SymbolRow], tuple[int, int, str]]:
    wanted = query.lower()

    def by_match(row: SymbolRow) -> tuple[int, int, str]:
        name = row.lower
        return (0 if name == wanted else 1 if name.startswith(wanted) else 2), len(name), name

    def by_figure(row: SymbolRow) -> tuple[int, int, str]:
        figures = row.figures
        value = {
            "size": row.symbol.size,
            "blocks": figures.blocks if figures else 0,
            "refused": figures.refused if figures else 0,
            "address": -row.symbol.address,
        }[sort]
        return 0, -value, row.shown

    if sort == "name":
        return lambda row: (0, 0, row.shown)
    return by_match if sort == "match" else by_figure


_REFUSALS: Final = frozenset(map(str, REASONS))
