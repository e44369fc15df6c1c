# SPDX-License-Identifier: LGPL-2.1-or-later
"""Print the table: a row for what was measured, a column for each tool, with ratios to gilk and to the machine's
limit."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.limits import floor
from bench.measure import Row

#: The goals, in the unit of the row (design: figures to reach).
GOALS = {
    "count at entry": 3.0, "entry and return, recorded": 25.0, "activate 11000 functions": 20.0,
    "D: count()": 6.0, "D: keyed count()": 30.0, "D: quantize()": 12.0, "D: default action, recorded": 20.0,
    "D: one-liner, BEGIN, not compiled before": 250.0, "D: one-liner, BEGIN, compiled before": 120.0,
    "D: one-liner, malloc of a new process, not compiled before": 250.0,
    "D: one-liner, malloc of a new process, compiled before": 120.0,
    "D: 10000 probes, from the command to its end, once more": 1000.0,
    "kernel: count at entry": 3.0, "kernel: C instrument at entry": 10.0, "kernel: entry, recorded": 35.0,
    "begin to follow all functions": 1.0, "empty function in a loop, slower": 100.0,
    "aspect: to weave one pointcut": 400.0,
    "video, warm-up": 11.0, "video, steady": 15.0, "video, activation": 1.0,
}  # fmt: skip
#: The beginnings of the rows that have a table of their own.
_KINDS = ("D: ", "aspect: ", "kernel: ", "video")


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def markdown(rows: Sequence[Row], limits: dict[str, float]) -> Iterator[str]:
    """The lines of the report, as Markdown."""
    yield f"{processor()}, Linux {platform.release()}, {datetime.now(UTC):%Y-%m-%d}"
    yield ""
    yield "Limits, ns: " + ", ".join(f"{name} {value:.2f}" for name, value in limits.items())
    yield ""
    for part in _parts(rows):
        yield from _table(part, limits)
    yield from _notes(rows)


def _parts(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """The rows of each table. The kernel, videos and aspects have peers of their own, and so tables of their own."""
    for kind in ("", *_KINDS):
        others = tuple({*_KINDS} - {kind})
        part = [row for row in rows if row.what.startswith(kind) and not row.what.startswith(others)]
        if part:
            yield part


def _table(rows: Sequence[Row], limits: dict[str, float]) -> Iterator[str]:
    tools = sorted({row.tool for row in rows}, key=lambda tool: (tool != "gilk", tool))
    yield "| what | limit | goal | " + " | ".join(tools) + " |"
    yield "|---|---|---|" + "---|" * len(tools)
    for what in dict.fromkeys(row.what for row in rows):
        yield _line(what, {row.tool: row for row in rows if row.what == what}, tools, limits)
    yield ""


def _line(what: str, found: dict[str, Row], tools: Sequence[str], limits: dict[str, float]) -> str:
    least = floor(what, limits)
    ours = found.get("gilk")

    def against(tool: str) -> float | None:
        """The value that a tool's figure is compared with; None for a value in another unit, which cannot be
        compared."""
        if tool == "gilk":
            return least
        return ours.value if ours is not None and tool in found and found[tool].unit == ours.unit else None

    cells = [_cell(found.get(tool), against(tool)) for tool in tools]
    return f"| {what} | {f'{least:.1f} ns' if least else ''} | {_goal(what, found.get('gilk'))} | {' | '.join(cells)} |"


def _goal(what: str, row: Row | None) -> str:
    if what not in GOALS:
        return ""
    goal = GOALS[what]
    unit = row.unit if row else "ns"
    met = row is not None and row.value is not None and row.value <= goal
    return f"{goal:.0f} {unit}, {'met' if met else 'MISSED'}"


def _cell(row: Row | None, against: float | None) -> str:
    """A value and, in brackets, its ratio to the figure that it is compared with: gilk's, or for gilk the limit."""
    if row is None:
        return ""
    if row.value is None:
        return "failed"
    ratio = f" ({row.value / against:.1f}x)" if against and against > 0 and row.unit != "%" else ""
    return f"{_number(row.value)} {row.unit}".rstrip() + ratio


def _number(value: float) -> str:
    """The number with three significant figures, without an exponent; a counted number is printed in full."""
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    noted = [row for row in rows if row.note]
    for row in noted:
        yield f"- {row.tool}, {row.what}: {row.note}"
