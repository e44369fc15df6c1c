# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions of a period by time, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gilk.render.names import named
from gilk.render.text import cell, nanoseconds, plural, table
from gilk.trace.folding import FunctionFigures, NamedPlace, TopPeriod

Json = dict[str, Any]
#: The figures by which functions may be sorted.
SORTS = ("self", "total", "calls")
_SHOWN = 12  # the most functions not followed that are shown


def to_text(period: TopPeriod, limit: int, sort: str, terminal: bool | None = None) -> str:
    """A line about the period, a row for each function, at most ``limit`` (0: all), and what is missing; ends with a
    newline.
    """
    rows = in_order(period.functions, sort)
    calls = sum(row.calls for row in rows)
    what = "in all: " if period.whole else ""
    text = f"{what}{nanoseconds(period.stop_ns - period.start_ns)}, "
    if rows or not period.seen:
        text += f"{plural(calls, 'call')} of {plural(len(rows), 'function')} in {plural(period.threads, 'thread')}\n"
    else:  # nothing is followed that was called: what there is to tell comes behind
        text += "no calls are followed; samples tell where threads ran\n"
    shown = rows[: limit or None]
    if shown:
        cells = [[nanoseconds(r.own), nanoseconds(r.total), r.calls, _share(period, (r.function, r.image)),
                  named(r.function), cell(r.image)] for r in shown]  # fmt: skip
        text += table(("self", "total", "calls", "seen", "function", "image"), cells, terminal)
    more = len(rows) - len(shown)
    text += f"and {plural(more, 'function')} more\n" if more else ""
    return text + _missing(period, _SHOWN if rows else limit)


def _share(period: TopPeriod, place: NamedPlace) -> str:
    """The percentage of all samples in which a thread was seen in the function."""
    return f"{100 * period.seen.get(place, 0) / max(sum(period.seen.values()), 1):.0f} %"


def _missing(period: TopPeriod, shown: int) -> str:
    text = ""
    if period.dropped:
        text = f"{plural(period.dropped, 'record')} dropped: they came faster than they could be taken\n"
    if period.omitted:
        text += f"{plural(len(period.omitted), 'function')} left out, called too often (--skip and --scope choose)\n"
    return text + _unfollowed(period, shown)


def _unfollowed(period: TopPeriod, shown: int) -> str:
    """The functions that are not followed, but in which threads were seen: the first ``shown``, 0 for all."""
    shown = shown or len(period.seen)
    followed = {(row.function, row.image) for row in period.functions}
    others = [(count, place) for place, count in period.seen.items() if place not in followed]
    others.sort(key=lambda each: (-each[0], each[1]))
    text = f"not followed, but seen in {plural(sum(period.seen.values()), 'sample')}:\n" if others else ""
    for _, (function, image) in others[:shown]:
        name = named(function) if function else "no function"
        text += f"  {_share(period, (function, image)):>5}  {name}" + (f" of {cell(image)}\n" if image else "\n")
    more = sum(count for count, _ in others[shown:])
    return text + (f"  and {plural(more, 'sample')} in {plural(len(others) - shown, 'other')}\n" if more else "")


def in_order(functions: Sequence[FunctionFigures], sort: str) -> list[FunctionFigures]:
    """The functions sorted by ``sort``, one of SORTS, the greatest first."""
    return sorted(functions, key=lambda row: (-_figure(row, sort), -row.own, row.function, row.image))


def _figure(row: FunctionFigures, sort: str) -> int:
    return {"self": row.own, "total": row.total, "calls": row.calls}[sort]


def to_json(period: TopPeriod, sort: str) -> Json:
    """The period as one object; times are in ns."""
    return {
        "whole": period.whole,
        "start": period.start_ns,
        "stop": period.stop_ns,
        "threads": period.threads,
        "functions": [_row(row) for row in in_order(period.functions, sort)],
        "seen": [
            {"function": function, "image": image, "samples": count}
            for (function, image), count in sorted(period.seen.items(), key=lambda each: (-each[1], each[0]))
        ],
        "dropped": period.dropped,
        "left_out": [
            {"function": each.function, "image": each.image, "from": each.from_ns, "calls": each.calls}
            for each in period.omitted
        ],
    }


def _row(row: FunctionFigures) -> Json:
    numbers = {"calls": row.calls, "self": row.own, "total": row.total}
    return {"function": row.function, "image": row.image, **numbers}
