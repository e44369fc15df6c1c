# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions of a trace: the number of calls and the time of each; and the heading with the bounds of the trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from gilk.render.source_place import LinesOf, no_lines
from gilk.render.text import cell, left_out, listed, nanoseconds, plural, table
from gilk.trace.flow import CallState, Flow
from gilk.trace.paths import whole
from gilk.trace.totals import by_function
from gilk.trace.traced import NEVER, TraceDescription

Json = dict[str, Any]
_NAMED = 12

_STATES = {
    CallState.OPEN: "still under way at the stop",
    CallState.LEFT: "left by a jump, an exception or the end of their thread",
    CallState.BEFORE: "entered before the start",
    CallState.CUT: "with dropped records in them",
    CallState.CLOSED: "closed by their caller, for their return cannot be recorded",
}


def functions(flow: Flow) -> list[Json]:
    """A row for each function, that with the longest `self` first. Times are in ns; `total` counts time in nested calls
    of the function itself once; `least`, `median` and `most` are those of calls of which both ends were recorded, None
    if there are none.
    """
    if not flow.table.num_rows:
        return []
    found = by_function(flow)
    spread = _spread(found.of, flow, len(found.symbols))
    rows = [
        {
            **{"function": name, "image": image, "lane": lane, "calls": int(found.calls[n])},
            **{"total": int(found.total[n]), "self": int(found.own[n]), **spread[n]},
        }
        for n, (name, image, lane) in enumerate(found.symbols)
    ]
    return sorted(rows, key=lambda row: (-row["self"], row["function"]))


def with_lines(rows: list[Json], lines: LinesOf) -> list[Json]:
    """The rows; those of functions of which ``lines`` knows the line also have `line`."""
    found = (lines(row["function"], row["image"]) for row in rows)
    return [row | {"line": line} if line else row for row, line in zip(rows, found, strict=True)]


def table_text(flow: Flow, limit: int, terminal: bool | None = None, lines: LinesOf = no_lines) -> str:
    """The first `limit` functions (0: all), with the lines that ``lines`` knows; ends with a newline unless it is
    empty."""
    rows = functions(flow)
    if not rows:
        return ""
    shown = rows[: limit or None]
    cells = [[_cell(name, row[name]) for name in rows[0] if name != "lane"] for row in shown]
    for row, values in zip(shown, cells, strict=True):
        line = lines(row["function"], row["image"])
        values[0] += f" ({line})" if line else ""
    headers = ["not whole" if name == "partial" else name for name in rows[0] if name != "lane"]
    order = [*range(2, len(headers)), 0, 1]  # names come last, since they may have any length
    text = table([headers[n] for n in order], [[row[n] for n in order] for row in cells], terminal)
    return text + (f"and {plural(len(rows) - len(shown), 'function')} more\n" if len(rows) > len(shown) else "")


def summary_text(flow: Flow, traced: TraceDescription | None) -> str:
    """The events at which the trace begins and ends, and what is missing from it."""
    text = f"{plural(flow.table.num_rows, 'call')} in {plural(len(flow.tracks), 'thread')}, "
    text += f"{nanoseconds(flow.stop_ns - flow.start_ns)}"
    if traced is not None:
        stop = cell(traced.stop_event) or "the end"
        text += f": from {cell(traced.start_event)} to {stop}"
        text += ", which has not come" if traced.stop_ns == NEVER else ""
        text += f"; only {cell(traced.scope)}" if traced.scope else ""
    counts = {state: int(np.count_nonzero(flow.is_state(state))) for state in _STATES}
    parts = ", ".join(f"{number} {_STATES[state]}" for state, number in counts.items() if number)
    text += "\n" + (f"calls of which an end is missing: {parts}\n" if parts else "")
    return text + missing_text(flow) + omitted_text(flow)


def missing_text(flow: Flow) -> str:
    """The functions of which the trace has no calls, and those of which some calls have no return; at most a line for
    each.
    """
    lacking = [f"{each.image}:{each.function}" for each in flow.unfollowed]
    text = f"not followed, for they cannot be instrumented: {listed(lacking, _NAMED)}\n" if lacking else ""
    partly = [f"{each.image}:{each.function}" for each in flow.unended]
    return text + (f"followed without all their returns: {listed(partly, _NAMED)}\n" if partly else "")


def omitted_text(flow: Flow) -> str:
    """A line for each function that was followed only for a time."""
    return "".join(
        f"left out from {nanoseconds(each.from_ns - flow.start_ns)} on: {cell(each.image)}:{cell(each.function)}, "
        f"short and hot, {left_out(each.calls)}\n"
        for each in flow.omitted
    )


def _spread(symbol: np.ndarray[Any, Any], flow: Flow, count: int) -> list[Json]:
    known = whole(flow)
    order = np.lexsort((flow.column("duration"), symbol))
    order = order[known[order]]
    durations, edges = flow.column("duration")[order], np.searchsorted(symbol[order], np.arange(count + 1))
    partial = np.bincount(symbol[~known], minlength=count)
    rows = []
    for n, (a, b) in enumerate(zip(edges.tolist(), edges[1:].tolist(), strict=False)):
        part = durations[a:b]
        least, median, most = (int(part[at]) if b > a else None for at in (0, (b - a - 1) // 2, -1))
        rows.append({"least": least, "median": median, "most": most, "partial": int(partial[n])})
    return rows


def _cell(name: str, value: Any) -> Any:
    if name in ("total", "self", "least", "median", "most") and value is not None:
        return nanoseconds(value)
    return value or "" if name == "partial" else value
