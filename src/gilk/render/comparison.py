# SPDX-License-Identifier: LGPL-2.1-or-later
"""The differences between two traces, as text and as JSON."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gilk.render.text import cell, nanoseconds, plural
from gilk.render.trace_names import with_readable_names
from gilk.trace.compare import Comparison, Extra, Timing, compare
from gilk.trace.paths import Symbol, label
from gilk.trace.reading import read

Json = dict[str, Any]
_LONGEST = 6  # the most functions of a path that are shown


def differences(a: Path, b: Path, thread: tuple[str, ...], readable: bool = False) -> Comparison:
    """The differences between two files; functions have their names in the source if ``readable``. Raises
    StoreError.
    """
    traces = [trace.only(thread) if thread else trace for trace in map(read, (a, b))]
    flows = [(with_readable_names(trace) if readable else trace).flow for trace in traces]
    return compare(flows[0], flows[1])


def slower(found: Comparison, factor: float) -> list[Timing]:
    """The paths of which a call takes more than `factor` times as long in B; [] if `factor` is 0."""
    return [timing for timing in found.timings if factor and timing.factor > factor]


def to_json(found: Comparison, limit: int, factor: float) -> Json:
    """The differences as JSON. `limit` is the most rows of each kind, 0 for all."""
    part = slice(0, limit or None)
    return {
        "same": found.same and not slower(found, factor),
        "unfinished": [
            {
                "in": u.side,
                "thread": u.thread,
                "path": _path(u.path),
                "duration_ns": u.duration,
                "other": u.other or None,
            }
            for u in found.unfinished[part]
        ],
        "only_a": [_extra(each) for each in found.only_a[part]],
        "only_b": [_extra(each) for each in found.only_b[part]],
        "order": [
            {"thread": m.thread, "path": _path(m.path), "calls": m.calls, "a": _path(m.a), "b": _path(m.b)}
            for m in found.moved[part]
        ],
        "endings": [
            {"thread": e.thread, "path": _path(e.path), "a": e.a, "b": e.b, "calls": e.calls}
            for e in found.endings[part]
        ],
        "threads_only_a": found.threads_a,
        "threads_only_b": found.threads_b,
        "slower": [_timing(each) for each in slower(found, factor)[part]],
        "times": [_timing(each) for each in found.timings[part]],
        "not_compared": found.ignored,
    }


def to_text(found: Comparison, limit: int, factor: float) -> str:
    """The differences as text, the most important first; ends with a newline."""
    parts: list[tuple[str, list[str]]] = [
        ("never returned", [line for each in found.unfinished for line in _unfinished(each)]),
        ("threads only in A", [cell(name) or "?" for name in found.threads_a]),
        ("threads only in B", [cell(name) or "?" for name in found.threads_b]),
        ("calls only in A", [_extra_text(each) for each in found.only_a]),
        ("calls only in B", [_extra_text(each) for each in found.only_b]),
        ("in another order", [line for each in found.moved for line in _moved(each)]),
        ("end otherwise", [f"{_count(e.calls)}{_short(e.path)}: {e.a} in A, {e.b} in B" for e in found.endings]),
        (f"more than {factor:g} times slower in B", [_timing_text(each) for each in slower(found, factor)]),
    ]
    text = "".join(_section(title, lines, limit) for title, lines in parts)
    if not text:
        text = "the same calls in the same order\n"
    changed = [timing for timing in found.timings if timing.change]
    text += _section("most changed in time", [_timing_text(each) for each in changed], limit)
    names = ", ".join(map(cell, found.ignored))
    return text + (f"not compared, for they were not followed all the time: {names}\n" if names else "")


def _section(title: str, lines: Sequence[str], limit: int) -> str:
    if not lines:
        return ""
    shown = lines[: limit or None]
    more = [f"  and {len(lines) - len(shown)} more"] if len(lines) > len(shown) else []
    return "".join(f"{line}\n" for line in (f"{title}:", *(f"  {line}" for line in shown), *more))


def _unfinished(each: Any) -> list[str]:
    other = "B" if each.side == "A" else "A"
    fate = {"whole": f"in {other} it returns", "": f"{other} has no such call"}.get(
        each.other, f"in {other} {each.other}"
    )
    name = cell(label(each.path[-1]))
    told = (
        f"{name}: in {each.side} it was still running when the trace stopped, for {nanoseconds(each.duration)}; {fate}"
    )
    return [told, f"  {_short(each.path)}"]


def _moved(each: Any) -> list[str]:
    where = _short(each.path) or "the thread itself"
    return [
        f"{plural(each.calls, 'call')} made by {where}",
        *(f"  {side}: … {' '.join(cell(label(s)) for s in row)} …" for side, row in (("A", each.a), ("B", each.b))),
    ]


def _extra_text(each: Extra) -> str:
    within = f" (and {plural(each.within, 'call')} within)" if each.within else ""
    return f"{_count(each.calls)}{_short(each.path)}{within}"


def _timing_text(each: Timing) -> str:
    means = [nanoseconds(total / calls) for total, calls in zip(each.total, each.calls, strict=True)]
    sign = "+" if each.change > 0 else "-"
    counts = f"{each.calls[0]}" if each.calls[0] == each.calls[1] else f"{each.calls[0]}, {each.calls[1]}"
    return (
        f"{sign}{nanoseconds(abs(each.change))}  {_short(each.path)}: {means[0]} a call, then {means[1]} (x {counts})"
    )


def _count(calls: int) -> str:
    return f"{calls} x " if calls > 1 else ""


def _short(path: Sequence[Symbol]) -> str:
    return short_path([label(symbol) for symbol in path])


def short_path(names: Sequence[str]) -> str:
    """The last few functions of a path, on one line; a function that calls itself is named once, with the number of
    calls.
    """
    runs = [(cell(name), len(list(run))) for name, run in itertools.groupby(names)]
    shown = [f"{name} ×{times}" if times > 1 else name for name, times in runs]
    return " > ".join(shown if len(shown) <= _LONGEST else ["…", *shown[-_LONGEST:]])


def _path(path: Sequence[Symbol]) -> list[str]:
    return [label(symbol) for symbol in path]


def _extra(each: Extra) -> Json:
    return {"thread": each.thread, "path": _path(each.path), "calls": each.calls, "within": each.within}


def _timing(each: Timing) -> Json:
    return {
        **{"path": _path(each.path), "calls_a": each.calls[0], "calls_b": each.calls[1]},
        **{"total_a": each.total[0], "total_b": each.total[1], "change_ns": round(each.change)},
    }
