# SPDX-License-Identifier: LGPL-2.1-or-later
"""Values as HTML for notebooks: tables and pictures without scripts, in which everything from a target is text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Final

from gilk.render import graph_picture
from gilk.render.histogram import Histogram
from gilk.render.names import learn, readable
from gilk.render.report import RunReport
from gilk.render.survey import REASONS
from gilk.render.text import cell, nanoseconds, plural
from gilk.render.trace_report import TraceReport
from gilk.splice.figures import FunctionRow, Survey, refused
from gilk.splice.graph import Graph
from gilk.splice.plan import Refusal
from gilk.trace.probes import by_function

MOST: Final = 200_000  # the most bytes of a value; a notebook's file keeps all of them
_ROWS: Final = 50  # the most rows of a table
_LONGEST: Final = 300  # the most characters of a cell
_BAR: Final = 12  # in em, the width of the longest bar


def survey(found: Survey) -> str:
    """The figures of a scan, and its largest functions."""
    rows = sorted(found.rows(), key=lambda row: -row.blocks)
    learn(row.name for row in rows)
    reasons = sorted(found.refusals.items(), key=lambda item: -item[1])
    parts = [
        _said(f"{found.image}: {plural(found.functions, 'function')}, {plural(found.blocks, 'block')}"),
        *(_said(f"refused: {plural(n, 'point')}, {reason}: {REASONS[Refusal(reason)]}") for reason, n in reasons),
        _table(("function", "bytes", "blocks", "refused points"), [_function(row) for row in rows[:_ROWS]]),
        _more(len(rows), "function"),
    ]
    return "".join(parts)


def _function(row: FunctionRow) -> tuple[Any, ...]:
    return readable(row.name), row.size, row.blocks, refused(row.pre) + refused(row.post)


def graph(found: Graph) -> str:
    """The blocks of a function as a picture; its size in words if the picture is too large for a notebook."""
    svg = graph_picture.to_svg(found)
    if len(svg.encode()) <= MOST:
        return f'<div style="overflow:auto;max-height:40em">{svg}</div>'
    name = f"{found.image}:{readable(found.function)}"
    blocks = plural(len(found.nodes), "block")
    return _said(f"{name}: {blocks}, too many for this picture: gilk.notebook.Cfg shows them")


def run_report(found: RunReport) -> str:
    """Counts with bars, the times of calls, refused points, and whether the code was restored."""
    counts = sorted(by_function(found.counts).items(), key=lambda item: -item[1])
    points = [(each.point, each.reason) for each in found.refused_points]
    parts = [
        _said(f"{found.spliced} of {plural(found.asked, 'point')} instrumented; {plural(found.records, 'record')}, "
              f"{found.drops} dropped. {_RESTORED[found.restored]}"),
        _table(("point", "hits", ""), [(name, n, _bar(n, counts[0][1])) for name, n in counts[:_ROWS]]),
        _more(len(counts), "point"),
        *(histogram(each, name) for name, each in list(found.latency.items())[:10]),
        _table(("refused point", "reason"), points[:_ROWS]),
        *map(_said, found.notes),
    ]  # fmt: skip
    return "".join(parts)


_RESTORED: Final = {
    True: "The code was compared: it is what it was.",
    False: "The code is NOT what it was.",
    None: "The code could not be compared.",
}


def trace_report(found: TraceReport) -> str:
    return f"<pre>{escape(cell_lines(found.render(False)))}</pre>"


def histogram(found: Histogram, name: str = "") -> str:
    """The times of a function's calls, by powers of two."""
    most = max(count for _, count in found.buckets)
    figures = (("least", found.least), ("median", found.p50), ("90 %", found.p90), ("99 %", found.p99),
               ("most", found.most), ("total", found.total))  # fmt: skip
    title = f"{name}: " if name else ""
    words = ", ".join(f"{word} {nanoseconds(value)}" for word, value in figures)
    rows = [(f"{nanoseconds(low)} to {nanoseconds(max(1, 2 * low))}", n, _bar(n, most)) for low, n in found.buckets]
    return _said(f"{title}{plural(found.count, 'call')}; {words}") + _table(("time", "calls", ""), rows)


def cell_lines(text: str) -> str:
    """A text of several lines, without control characters."""
    return "\n".join(map(cell, text.split("\n")))


class _Bar(str):
    """Markup of our own, which is no text."""


def _bar(value: int, most: int) -> _Bar:
    width = _BAR * value / max(1, most)
    return _Bar(f'<div style="background:#f3a568;height:0.7em;width:{width:.2f}em"></div>')


def _said(text: str) -> str:
    return f"<p>{escape(_cut(text))}</p>"


def _cut(value: Any) -> str:
    text = cell(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table; '' without rows."""
    if not rows:
        return ""
    head = "".join(f"<th>{escape(each)}</th>" for each in headers)
    body = "".join(f"<tr>{''.join(_cells(row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: Sequence[Any]) -> Iterator[str]:
    for value in row:
        if isinstance(value, _Bar):
            yield f"<td>{value}</td>"
        elif isinstance(value, int):
            yield f'<td style="text-align:right">{value:,}</td>'.replace(",", "\u202f")
        else:
            yield f'<td style="text-align:left">{escape(_cut(value))}</td>'


def _more(count: int, noun: str) -> str:
    return _said(f"and {plural(count - _ROWS, noun)} more") if count > _ROWS else ""
