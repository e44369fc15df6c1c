# SPDX-License-Identifier: LGPL-2.1-or-later
"""A trace as one HTML page that draws it: no server, no network, no other file.

The page is assets/timeline.*; its data are compressed, and unpacked by the browser. They are: a 32-bit length, JSON of
that length, then of all calls, in a flow's order, start (less the start before it in the same thread; of the first,
less the trace's), duration, symbol, depth, state: each a column of numbers of seven bits a byte, the lowest first, the
top bit set in all bytes but the last.

Names come from the traced program, so they may be anything. They are in the compressed part, and the page sets them as
text only; its policy runs no script and loads no style but its own, by their hashes, and reaches nothing.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from gilk.render.flow_table import functions, missing_text
from gilk.render.process_names import traced_name
from gilk.render.report import losses
from gilk.render.text import nanoseconds, plural
from gilk.trace.call_index import Track, track_of
from gilk.trace.flow import KERNEL, CallState, Flow
from gilk.trace.nesting import Ints
from gilk.trace.paths import Symbol, symbols_of
from gilk.trace.reading import Trace
from gilk.trace.traced import NEVER

_SCRIPTS = ("timeline_data.js", "timeline_draw.js", "timeline_panel.js", "timeline_page.js")
_MOST_GAPS = 20_000  # the most marks for gaps
_MOST_FUNCTIONS = 25
_LONGEST_NAME = 400  # in characters
_STATES = (
    CallState.WHOLE,
    CallState.LEFT,
    CallState.OPEN,
    CallState.BEFORE,
    CallState.CUT,
    CallState.CLOSED,
)  # in the order in which the page numbers them


def page(trace: Trace) -> str:
    """The whole page as text."""
    style, script = _asset("timeline.css"), "\n".join(map(_asset, _SCRIPTS))
    policy = f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'"
    packed = base64.b64encode(zlib.compress(pack(trace), 6)).decode()
    parts = {"POLICY": policy, "TITLE": html.escape(heading(trace)), "STYLE": style, "SCRIPT": script, "DATA": packed}
    # All parts are put in at once, since a title may look like the place of another part.
    return re.sub("@([A-Z]+)@", lambda found: parts[found[1]], _asset("timeline.html"))


def pack(trace: Trace) -> bytes:
    """The data of a page, before they are compressed."""
    flow = trace.flow
    head = json.dumps(summary(trace)).encode()
    symbol, _ = symbols_of(flow)
    state = np.zeros(len(symbol), np.int64)
    for number, name in enumerate(_STATES):
        state[flow.is_state(name)] = number
    columns = (_steps(flow), flow.column("duration"), symbol, flow.column("depth"), state)
    return len(head).to_bytes(4, "little") + head + b"".join(_numbers(column.astype(np.uint64)) for column in columns)


def summary(trace: Trace) -> dict[str, Any]:
    """Everything that a time line shows besides the calls; times are in ns since the trace's start."""
    flow = trace.flow
    tracks = [track_of(flow, rows) for rows in flow.tracks]
    return summary_of(trace, functions(flow), tracks, symbols_of(flow)[1])


def summary_of(
    trace: Trace, rows: list[dict[str, Any]], of: Sequence[Track], symbols: Sequence[Symbol]
) -> dict[str, Any]:
    """The same as summary(), for a trace whose flow may lack some of its calls. ``rows`` are its functions, those with
    the most time in themselves first.
    """
    flow = trace.flow
    begin, calls = flow.start_ns, sum(track.calls for track in of)
    tracks = [_track(each) for each in of]
    number = {(each["pid"], each["tid"]): n for n, each in reversed([*enumerate(tracks)])}
    return {
        "heading": heading(trace),
        "about": _about(trace, flow, calls),
        "losses": losses(trace.tally.drops, trace.tally.lost, trace.tally.nested, trace.tally.corrupt) + _cut(trace),
        "span": max(flow.stop_ns - begin, 1),
        "calls": calls,
        "tracks": tracks,
        "symbols": [[_short(name), image, int(lane == KERNEL)] for name, image, lane in symbols],
        "images": _images(rows),
        "functions": [_named(row) for row in rows[:_MOST_FUNCTIONS]],
        "omitted": [
            {"function": _short(o.function), "image": o.image, "from": o.from_ns - begin, "calls": o.calls}
            for o in flow.omitted
        ],
        "gaps": [[number[pid, tid], at - begin] for pid, tid, at in flow.gaps[:_MOST_GAPS] if (pid, tid) in number],
    }


def _track(track: Track) -> dict[str, Any]:
    where = f"process {track.pid}" if track.pid == track.tid else f"thread {track.tid} of process {track.pid}"
    name = f"{track.thread} ({where})" if track.thread else where
    name += f", stack {track.stack + 1}" if track.stack else ""
    return {"name": name, "pid": track.pid, "tid": track.tid, "calls": track.calls}


def _images(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The images, those with the most time first."""
    total: dict[str, int] = {}
    for row in rows:
        total[row["image"]] = total.get(row["image"], 0) + row["self"]
    kernel = {row["image"] for row in rows if row["lane"] == KERNEL}
    return [{"name": name, "lane": int(name in kernel)} for name in sorted(total, key=lambda name: -total[name])]


def _named(row: dict[str, Any]) -> dict[str, Any]:
    return {"function": _short(row["function"]), "calls": row["calls"], "self": row["self"]}


def _about(trace: Trace, flow: Flow, calls: int) -> list[str]:
    traced = trace.tally.trace
    lines = [f"on {trace.about.host}: {plural(calls, 'call')}, {nanoseconds(flow.stop_ns - flow.start_ns)}"]
    if traced is not None:
        lines.append(f"from {traced.start_event} to {traced.stop_event or 'the end'}")
        lines += [f"only {traced.scope}"] if traced.scope else []
        lines += ["it was never stopped"] if traced.stop_ns == NEVER else []
    lines += missing_text(flow).splitlines()
    notes = trace.tally.report.get("notes", [])
    return lines + [str(note) for note in notes if isinstance(notes, list)]


def _cut(trace: Trace) -> list[str]:
    return ["what wrote this did not end in order: the last moments may be missing"] if trace.tally.partial else []


def heading(trace: Trace) -> str:
    return _short(traced_name(trace))


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…"


def _steps(flow: Flow) -> Ints:
    """Each call's start less that of the call before it. A call begins before the trace only if a file says so; it
    counts as 0.
    """
    start = flow.column("start").astype(np.int64)
    steps = np.diff(start, prepend=flow.start_ns)
    for rows in flow.tracks:
        steps[rows.start] = start[rows.start] - flow.start_ns
    return np.maximum(steps, 0)


def _numbers(values: np.ndarray[Any, np.dtype[np.uint64]]) -> bytes:
    """The numbers in seven bits a byte. Ten bytes are made for each number, and those that are needed are kept."""
    made = []
    for part in np.array_split(values, len(values) // 100_000 + 1):
        shifted = part[:, None] >> (np.arange(10, dtype=np.uint64) * np.uint64(7))
        more = np.concatenate([shifted[:, 1:] > 0, np.zeros((len(part), 1), np.bool_)], axis=1)
        kept = np.concatenate([np.ones((len(part), 1), np.bool_), more[:, :-1]], axis=1)
        every = (shifted & np.uint64(127)).astype(np.uint8) | (more.astype(np.uint8) << 7)
        made.append(every[kept].tobytes())
    return b"".join(made)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return files("gilk.render").joinpath("assets", name).read_text("utf-8")
