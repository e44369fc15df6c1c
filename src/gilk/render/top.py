# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions of a period by time, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gilk.render.names import named
from gilk.render.text import cell, left_out, nanoseconds, plural, table
from gilk.trace.folding import FunctionFigures, TopPeriod

Json = dict[str, Any]
#: By what functions may be sorted.
SORTS = ("self", "total", "calls")
_SHOWN = 12  # functions that were left out


def to_text(period: TopPeriod, limit: int, sort: str, terminal: bool | None = None) -> str:
    """A line about the period, a row for each function, at most ``limit`` (0: all), and what is missing; ends with a
    newline."""
    rows = in_order(period.functions, sort)
    calls = sum(row.calls for row in rows)
    what = "in all: " if period.whole else ""
    text = f"{what}{nanoseconds(period.stop_ns - period.start_ns)}, {plural(calls, 'call')} of "
    text += f"{plural(len(rows), 'function')} in {plural(period.threads, 'thread')}\n"
    shown = rows[: limit or None]
    if shown:
        cells = [[nanoseconds(r.own), nanoseconds(r.total), r.calls, named(r.function), cell(r.image)] for r in shown]
        text += table(("self", "total", "calls", "function", "image"), cells, terminal)
    more = len(rows) - len(shown)
    text += f"and {plural(more, 'function')} more\n" if more else ""
    return text + _missing(period)


def _missing(period: TopPeriod) -> str:
    text = ""
    if period.dropped:
        text = f"{plural(period.dropped, 'record')} dropped: they came faster than they could be taken\n"
    if period.omitted:
        text += f"{plural(len(period.omitted), 'function')} left out, called too often (--skip and --scope choose):\n"
        for each in period.omitted[:_SHOWN]:
            text += f"  {named(each.function)} of {cell(each.image)} {left_out(each.calls)}\n"
        more = len(period.omitted) - _SHOWN
        text += f"  and {more} more\n" if more > 0 else ""
    return text


def in_order(functions: Sequence[FunctionFigures], sort: str) -> list[FunctionFigures]:
    """The most of ``sort``, one of SORTS, comes first."""
    return sorted(functions, key=lambda row: (-_figure(row, sort), -row.own, row.function, row.image))


def _figure(row: FunctionFigures, sort: str) -> int:
    return {"self": row.own, "total": row.total, "calls": row.calls}[sort]


def to_json(period: TopPeriod, sort: str) -> Json:
    """One object; times are in ns."""
    return {
        "whole": period.whole,
        "start": period.start_ns,
        "stop": period.stop_ns,
        "threads": period.threads,
        "functions": [_row(row) for row in in_order(period.functions, sort)],
        "dropped": period.dropped,
        "left_out": [
            {"function": each.function, "image": each.image, "from": each.from_ns, "calls": each.calls}
            for each in period.omitted
        ],
    }


def _row(row: FunctionFigures) -> Json:
    numbers = {"calls": row.calls, "self": row.own, "total": row.total}
    return {"function": row.function, "image": row.image, **numbers}
