# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calls that are unlike others, as text and as JSON."""

from __future__ import annotations

from typing import Any

from gilk.render.comparison import short_path
from gilk.render.source_place import LinesOf, no_lines, with_line
from gilk.render.text import cell, nanoseconds, plural
from gilk.render.timeline_parts import TimelineParts
from gilk.trace.anomalies import Finding, find_among
from gilk.trace.judged import JudgedCalls, judged_flow, judged_index
from gilk.trace.paths import Symbol, label
from gilk.trace.reading import Trace
from gilk.values import dataclass

Json = dict[str, Any]
_NAMES = {
    "unfinished": "did not return",
    "slow": "slow",
    "left": "left without a return",
    "calls": "called otherwise",
}


@dataclass(frozen=True)
class Group:
    """The most important finding of one sort and path, and the number of the others."""

    worst: Finding
    more: int


def of_trace(trace: Trace) -> JudgedCalls:
    return judged_flow(trace.flow)


def of_parts(parts: TimelineParts) -> JudgedCalls:
    """The calls of a trace by its index, which need not be read as a whole."""
    return judged_index(parts.index)


def findings(calls: JudgedCalls, least: int) -> list[Group]:
    """The findings among calls, in groups. `least`: the number of ns by which a slow call exceeds the median,
    at least.
    """
    found: dict[tuple[str, tuple[Symbol, ...]], list[Finding]] = {}
    for each in find_among(calls, least):
        found.setdefault((each.sort, each.path), []).append(each)
    return [Group(group[0], len(group) - 1) for group in found.values()]


def to_json(calls: JudgedCalls, found: list[Group], limit: int, lines: LinesOf = no_lines) -> Json:
    """The first `limit` findings as JSON; 0 for all. Each has `line` if ``lines`` knows that of its function."""
    rows = [{**_row(calls, group.worst, lines), "more": group.more} for group in found[: limit or None]]
    return {"calls": len(calls.duration), "found": len(found), "anomalies": rows}


def to_text(calls: JudgedCalls, found: list[Group], limit: int, lines: LinesOf = no_lines) -> str:
    """The findings as text, three lines for each, with the lines of the source that ``lines`` knows; ends with a
    newline."""
    if not found:
        return f"{plural(len(calls.duration), 'call')}, none of which stands out\n"
    told = []
    for number, group in enumerate(found[: limit or None], 1):
        finding = group.worst
        row = _row(calls, finding, lines)
        where = f"{row['thread'] or 'thread'} {row['tid']}, {nanoseconds(row['at_ns'])} into the trace"
        took = f"took {nanoseconds(row['duration_ns'])}" + (
            f" (+{nanoseconds(finding.weight)})" if finding.weight else ""
        )
        name = with_line(finding.path[-1], lines)
        told.append(f"{number}. {name} {_NAMES[finding.sort]}: {took}; {cell(finding.why)}")
        told.append(f"   {short_path([label(each) for each in finding.path])}")
        more = f", {group.more} of them found as well" if group.more else ""
        told.append(f"   {cell(where)}; {plural(finding.siblings, 'other call')} of this path{more}")
    if limit and len(found) > limit:
        told.append(f"and {len(found) - limit} more")
    return "".join(f"{line}\n" for line in told)


def _row(calls: JudgedCalls, finding: Finding, lines: LinesOf) -> Json:
    call = calls.described(finding.row)
    line = lines(call["function"], call["image"])
    return {
        "kind": finding.sort,
        "function": call["function"],
        "image": call["image"],
        "lane": call["lane"],
        **({"line": line} if line else {}),
        "path": [label(each) for each in finding.path],
        "why": finding.why,
        "at_ns": call["start"] - calls.start_ns,
        "duration_ns": call["duration"],
        "excess_ns": finding.weight,
        "own_excess_ns": finding.own,
        "siblings": finding.siblings,
        **{name: call[name] for name in ("pid", "tid", "thread", "state")},
        "row": finding.row,
    }
