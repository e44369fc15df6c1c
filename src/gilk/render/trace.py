# SPDX-License-Identifier: LGPL-2.1-or-later
"""The contents of a file of samples, as JSON and as text."""

from __future__ import annotations

import datetime
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa

from gilk.render import flow_table
from gilk.render.histogram import by_function
from gilk.render.report import histograms, losses, top_counts
from gilk.render.text import cell, nanoseconds, plural, table
from gilk.trace.reading import Trace, read

Json = dict[str, Any]
_FUNCTIONS = 25


def load(path: Path, threads: tuple[str, ...] = ()) -> Trace:
    """The file at `path`; if `threads` are given, each a name or a tid, only their samples."""
    trace = read(path)
    return trace.only(threads) if threads else trace


def to_json(trace: Trace, limit: int) -> Json:
    """Everything that `gilk show` knows about the file, with the first `limit` samples."""
    about, tally, calls = trace.about, trace.tally, trace.calls
    return {
        "file": str(trace.path),
        "host": about.host,
        "command": list(about.command),
        "pids": list(about.pids),
        "started": _started(trace),
        "duration_ns": tally.duration,
        "partial": tally.partial,
        "counts": tally.counts,
        "records": trace.samples.num_rows,
        "drops": tally.drops,
        "lost": tally.lost,
        "nested": tally.nested,
        "corrupt": tally.corrupt,
        "calls": {
            "paired": calls.table.num_rows,
            "abandoned": calls.abandoned,
            "open": calls.open,
            "orphans": calls.orphans,
            "cut": calls.cut,
        },
        "latency": {name: histogram.to_json() for name, histogram in by_function(calls.table).items()},
        "probes": [{"point": p.point, "function": p.function, "image": p.image, "kind": p.kind} for p in about.probes],
        "report": tally.report,
        **_flow(trace),
        "samples": [_filled(row) for row in trace.samples.slice(0, limit).to_pylist()],
    }


def to_text(trace: Trace, limit: int, terminal: bool | None = None) -> str:
    """The contents as text for people; ends with a newline."""
    tally = trace.tally
    parts = [_heading(trace), top_counts(tally.counts, terminal)]
    if tally.trace is None:
        parts += [histograms(by_function(trace.calls.table)), _unpaired(trace)]
    else:
        parts += [flow_table.summary_text(trace.flow, tally.trace)]
        parts += [flow_table.table_text(trace.flow, _FUNCTIONS, terminal)]
    parts += [f"{line}\n" for line in losses(tally.drops, tally.lost, tally.nested, tally.corrupt)]
    parts += [f"note: {cell(note)}\n" for note in _notes(trace)]
    if tally.trace is None:
        parts.append(_rows(trace.samples, limit, terminal))
    return "".join(parts)


def _flow(trace: Trace) -> Json:
    """The members that only a trace has."""
    if trace.tally.trace is None:
        return {}
    return {"trace": trace.tally.trace.to_json(), "functions": flow_table.functions(trace.flow)}


def _heading(trace: Trace) -> str:
    about, tally = trace.about, trace.tally
    what = cell(shlex.join(about.command)) or plural(len(about.pids), "process")
    where = f"{what} on {cell(about.host)}, {_started(trace)}, {_duration(trace)}"
    threads = trace.samples.group_by(["pid", "tid"]).aggregate([]).num_rows
    numbers = f"{plural(trace.samples.num_rows, 'record')} of {plural(threads, 'thread')}"
    numbers += f", {plural(len(about.probes), 'probe')}"
    cut = "the run that wrote this did not end in order: the last moments may be missing\n" if tally.partial else ""
    return f"{where}\n{numbers}\n{cut}"


def _duration(trace: Trace) -> str:
    """The duration of the run; if its writer was stopped, the time until the last of what it has written."""
    if not trace.tally.partial:
        return nanoseconds(trace.tally.duration)
    last = max(trace.tally.duration, trace.samples["time"][-1].as_py() if trace.samples.num_rows else 0)
    return f"at least {nanoseconds(last)}"


def _unpaired(trace: Trace) -> str:
    calls = trace.calls
    parts = [
        (calls.open, "still under way at the end"),
        (calls.abandoned, "left by an exception or longjmp"),
        (calls.orphans, "entered before the first record"),
        (calls.cut, "cut by dropped records"),
    ]
    text = ", ".join(f"{number} {what}" for number, what in parts if number)
    return f"calls without a duration: {text}\n" if text else ""


def _notes(trace: Trace) -> list[str]:
    notes = trace.tally.report.get("notes", [])
    return [str(note) for note in notes] if isinstance(notes, list) else []


def _rows(samples: pa.Table, limit: int, terminal: bool | None) -> str:
    """The first samples, without the columns that are empty in all of them."""
    first = samples.slice(0, limit)
    if not first.num_rows:
        return ""
    shown = [name for name in first.column_names if first[name].null_count < first.num_rows]
    rows = [[row[name] for name in shown] for row in first.to_pylist()]
    text = table(shown, rows, terminal)
    return text + (f"and {plural(samples.num_rows - limit, 'record')} more\n" if samples.num_rows > limit else "")


def _filled(row: Json) -> Json:
    return {name: value for name, value in row.items() if value is not None}


def _started(trace: Trace) -> str:
    """The time at which the session started: ISO 8601, UTC."""
    seconds = (trace.about.start + trace.about.realtime) // 1_000_000_000
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return "at no known time"
