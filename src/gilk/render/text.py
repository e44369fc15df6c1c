# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tables and quantities as text: by rich on a terminal, in plain columns anywhere else."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Any

_UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000))
# Names of functions and threads come from the target: they must not control the terminal.
_CONTROL = {code: f"\\x{code:02x}" for code in [*range(32), *range(127, 160)]}

_CONTROL_IN_LINES = {code: text for code, text in _CONTROL.items() if chr(code) not in "\n\t"}


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]], terminal: bool | None = None) -> str:
    """Columns under `headers`, numbers to the right; ends with a newline. `terminal`: whether to draw for a terminal,
    None: if standard output is one.
    """
    cells = [[cell(value) for value in row] for row in rows]
    right = [bool(rows) and all(isinstance(row[n], int | float | None) for row in rows) for n in range(len(headers))]
    if sys.stdout.isatty() if terminal is None else terminal:
        return _drawn(headers, cells, right)
    return _plain(headers, cells, right)


def cell(value: Any) -> str:
    """A value as text, on one line, without characters that control a terminal."""
    return "" if value is None else str(value).translate(_CONTROL)


def message(text: str) -> str:
    """A text of several lines, without characters that control a terminal."""
    return text.translate(_CONTROL_IN_LINES)


def nanoseconds(value: float) -> str:
    """A time with three digits and a unit: 1.23us for 1234."""
    for unit, size in _UNITS:
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}" if abs(value) < 999.5 * size else f"{value / size:.0f}{unit}"
    return f"{value:.0f}ns"


def plural(count: int, noun: str) -> str:
    """A number and a noun: 3 records, 1 record; 2 processes."""
    ending = "es" if noun.endswith("s") else "s"
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{ending}"


def left_out(calls: int) -> str:
    """The event at which a trace began to leave a function out: after ``calls`` calls, or at its beginning, for 0."""
    return f"after {plural(calls, 'call')}" if calls else "from the beginning, for its calls before that"


def listed(items: Sequence[str], most: int) -> str:
    """The first ``most`` items, made safe for a terminal, with commas between; and the number of the others."""
    more = len(items) - most
    return ", ".join(cell(item) for item in items[:most]) + (f" and {more} more" if more > 0 else "")


def _plain(headers: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    widths = [max(len(row[n]) for row in [headers, *cells]) for n in range(len(headers))]
    lines = []
    for row in [headers, *cells]:
        parts = [part.rjust(w) if r else part.ljust(w) for part, w, r in zip(row, widths, right, strict=True)]
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines) + "\n"


def _drawn(headers: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    from rich.console import Console  # imported here: it takes long to import, and most output is plain
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for header, numeric in zip(headers, right, strict=True):
        drawn.add_column(header, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        drawn.add_row(*(part.replace("[", r"\[") for part in row))  # rich would take [x] as markup
    console = Console(file=io.StringIO(), force_terminal=True, highlight=False, width=Console().width)
    console.print(drawn)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text
