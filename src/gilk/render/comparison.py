# SPDX-License-Identifier: LGPL-2.1-or-later
"""The differences between two traces, as text and as JSON."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gilk.render.source_place import LinesOf, no_lines
from gilk.render.text import cell, nanoseconds, plural
from gilk.render.trace_names import with_readable_names
from gilk.trace.about import About
from gilk.trace.compare import Comparison, Extra, Timing, compare
from gilk.trace.paths import Symbol, label
from gilk.trace.reading import read
from gilk.values import dataclass

Json = dict[str, Any]
_LONGEST = 6  # the most functions of a path that are shown


@dataclass(frozen=True, slots=True)
class LinesOfBoth:
    """Looks up the lines of functions in A and in B."""

    a: LinesOf = no_lines
    b: LinesOf = no_lines

    def of(self, path: Sequence[Symbol], side: str = "") -> str:
        """The line at which the last function of a path begins in the trace ``side``, "A" or "B"; without a side that
        in B, or that in A if B's is not known. '' if no line is known, or if the path is empty.
        """
        if not path:
            return ""
        function, image, _ = path[-1]
        asked = {"A": (self.a,), "B": (self.b,)}.get(side, (self.b, self.a))
        return next(filter(None, (lines(function, image) for lines in asked)), "")


_NO_LINES = LinesOfBoth()


def differences(
    a: Path, b: Path, thread: tuple[str, ...], readable: bool = False
) -> tuple[Comparison, tuple[About, About]]:
    """The differences between two files, and what each file tells about its run; functions have their names in the
    source if ``readable``. Raises StoreError.
    """
    traces = [trace.only(thread) if thread else trace for trace in map(read, (a, b))]
    one, other = [with_readable_names(trace) if readable else trace for trace in traces]
    return compare(one.flow, other.flow), (one.about, other.about)


def slower(found: Comparison, factor: float) -> list[Timing]:
    """The paths of which a call takes more than `factor` times as long in B; [] if `factor` is 0."""
    return [timing for timing in found.timings if factor and timing.factor > factor]


def to_json(found: Comparison, limit: int, factor: float, lines: LinesOfBoth = _NO_LINES) -> Json:
    """The differences as JSON. `limit` is the most rows of each kind, 0 for all. A row has the `line` at which the last
    function of its path begins, if that is known.
    """
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
                **_line(lines.of(u.path, u.side)),
            }
            for u in found.unfinished[part]
        ],
        "only_a": [_extra(each, lines.of(each.path, "A")) for each in found.only_a[part]],
        "only_b": [_extra(each, lines.of(each.path, "B")) for each in found.only_b[part]],
        "order": [
            {
                "thread": m.thread,
                "path": _path(m.path),
                "calls": m.calls,
                "a": _path(m.a),
                "b": _path(m.b),
                **_line(lines.of(m.path)),
            }
            for m in found.moved[part]
        ],
        "endings": [
            {
                "thread": e.thread,
                "path": _path(e.path),
                "a": e.a,
                "b": e.b,
                "calls": e.calls,
                **_line(lines.of(e.path)),
            }
            for e in found.endings[part]
        ],
        "threads_only_a": found.threads_a,
        "threads_only_b": found.threads_b,
        "slower": [_timing(each, lines.of(each.path)) for each in slower(found, factor)[part]],
        "times": [_timing(each, lines.of(each.path)) for each in found.timings[part]],
        "not_compared": found.ignored,
    }


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a report: the path stands between two texts, with the line of the source if ``sourced``."""

    before: str
    path: Sequence[Symbol] = ()
    after: str = ""
    side: str = ""
    sourced: bool = True

    def text(self, lines: LinesOfBoth) -> str:
        line = lines.of(self.path, self.side) if self.sourced else ""
        return self.before + _short(self.path) + (f" ({cell(line)})" if line else "") + self.after


def to_text(found: Comparison, limit: int, factor: float, lines: LinesOfBoth = _NO_LINES) -> str:
    """The differences as text, the most important first; ends with a newline."""
    parts: list[tuple[str, list[_Line]]] = [
        ("never returned", [line for each in found.unfinished for line in _unfinished(each)]),
        ("threads only in A", [_Line(cell(name) or "?") for name in found.threads_a]),
        ("threads only in B", [_Line(cell(name) or "?") for name in found.threads_b]),
        ("calls only in A", [_extra_line(each, "A") for each in found.only_a]),
        ("calls only in B", [_extra_line(each, "B") for each in found.only_b]),
        ("in another order", [line for each in found.moved for line in _moved(each)]),
        ("end otherwise", [_Line(_count(e.calls), e.path, f": {e.a} in A, {e.b} in B") for e in found.endings]),
        (f"more than {factor:g} times slower in B", [_timing_line(each) for each in slower(found, factor)]),
    ]
    text = "".join(_section(title, rows, limit, lines) for title, rows in parts)
    if not text:
        text = "the same calls in the same order\n"
    changed = [timing for timing in found.timings if timing.change]
    text += _section("most changed in time", [_timing_line(each) for each in changed], limit, lines)
    names = ", ".join(map(cell, found.ignored))
    return text + (f"not compared, for they were not followed all the time: {names}\n" if names else "")


def _section(title: str, rows: Sequence[_Line], limit: int, lines: LinesOfBoth) -> str:
    """The first ``limit`` rows. Lines of the source are looked up for these only."""
    if not rows:
        return ""
    shown = rows[: limit or None]
    more = [f"  and {len(rows) - len(shown)} more"] if len(rows) > len(shown) else []
    return "".join(f"{line}\n" for line in (f"{title}:", *(f"  {row.text(lines)}" for row in shown), *more))


def _unfinished(each: Any) -> list[_Line]:
    other = "B" if each.side == "A" else "A"
    fate = {"whole": f"in {other} it returns", "": f"{other} has no such call"}.get(
        each.other, f"in {other} {each.other}"
    )
    told = f": in {each.side} it was still running when the trace stopped, for {nanoseconds(each.duration)}; {fate}"
    return [_Line("", each.path[-1:], told, each.side), _Line("  ", each.path, sourced=False)]


def _moved(each: Any) -> list[_Line]:
    rows = (("A", each.a), ("B", each.b))
    orders = (_Line(f"  {side}: … {' '.join(cell(label(s)) for s in row)} …") for side, row in rows)
    caller = "" if each.path else "the thread itself"
    return [_Line(f"{plural(each.calls, 'call')} made by {caller}", each.path), *orders]


def _extra_line(each: Extra, side: str) -> _Line:
    within = f" (and {plural(each.within, 'call')} within)" if each.within else ""
    return _Line(_count(each.calls), each.path, within, side)


def _timing_line(each: Timing) -> _Line:
    means = [nanoseconds(total / calls) for total, calls in zip(each.total, each.calls, strict=True)]
    sign = "+" if each.change > 0 else "-"
    counts = f"{each.calls[0]}" if each.calls[0] == each.calls[1] else f"{each.calls[0]}, {each.calls[1]}"
    told = f": {means[0]} a call, then {means[1]} (x {counts})"
    return _Line(f"{sign}{nanoseconds(abs(each.change))}  ", each.path, told)


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


def _line(line: str) -> Json:
    return {"line": line} if line else {}


def _extra(each: Extra, line: str) -> Json:
    found = {"thread": each.thread, "path": _path(each.path), "calls": each.calls, "within": each.within}
    return found | _line(line)


def _timing(each: Timing, line: str) -> Json:
    return {
        **{"path": _path(each.path), "calls_a": each.calls[0], "calls_b": each.calls[1]},
        **{"total_a": each.total[0], "total_b": each.total[1], "change_ns": round(each.change)},
        **_line(line),
    }
