# SPDX-License-Identifier: LGPL-2.1-or-later
"""Events as JSON objects, one for each, as described in docs/cli/dtrace.md. `VERSION` grows when an object changes its
meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gilk.lang.d.probes import DProbe
from gilk.lang.d.reliance import ProbeStability
from gilk.lang.data import Aggregation
from gilk.lang.types import text as type_text
from gilk.render.d import distribution
from gilk.render.d.messages import FAULTS, kind_of
from gilk.render.d.text import text_of
from gilk.trace.d import events
from gilk.trace.d.values import (
    Bytes,
    Distribution,
    Dump,
    Floating,
    Integer,
    Memory,
    Packet,
    Stack,
    Symbol,
    Text,
    Value,
    encoded,
)  # fmt: skip

VERSION = 1
Json = dict[str, Any]


def first(program: str) -> Json:
    """The object for the first line. ``program`` is gilk's version."""
    return {"type": "dtrace", "version": VERSION, "gilk": program}


def error(**what: Any) -> Json:
    """The object that says why there are no results, or no further ones."""
    return {"type": "error", "error": what}


class Encoder:
    """Makes the objects of one session: it numbers records, from 1, so that the events of a record can be found."""

    def __init__(self, printsize: int = 1024, strsize: int = 256) -> None:
        self._sizes = printsize, strsize
        self._record, self._open = 0, False

    def object(self, event: events.Event) -> Json | None:
        """The object for an event; None if there is no line for it."""
        if isinstance(event, events.RecordEnded):
            self._open = False
            return None
        if isinstance(event, events.ProbeFired):
            self._record, self._open = self._record + 1, True
        name, members = _EVENTS[type(event)]
        record = {"record": self._record} if self._open else {}
        made: Json = {"type": name, **record, **members(event)}
        if isinstance(event, events.Printed) and (text := text_of(event, *self._sizes)) is not None:
            made["text"] = string(text)
        return made


def string(data: bytes | str) -> str | Json:
    """The string if it is UTF-8; otherwise ``{"bytes": "hexadecimal"}``."""
    raw = encoded(data) if isinstance(data, str) else data
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"bytes": raw.hex()}


def value(one: Value) -> Any:
    match one:
        case Integer():
            return one.as_typed
        case Floating():
            return one.value if math.isfinite(one.value) else str(one.value)
        case Text():
            return string(one.data)
        case Bytes() | Dump():
            return {"bytes": one.data.hex()}
        case Memory():
            return {"address": one.address, "of": type_text(one.type), "bytes": one.data.hex()}
        case Packet():
            return {"time": one.time, "link": one.link, "length": one.length, "bytes": one.data.hex()}
        case Symbol():
            return {"symbol": string(one.text)}
        case Stack():
            return {"stack": [string(line) for line in one.lines]}
        case Distribution():
            return {"distribution": distribution.rows(one)}


def _probe(probe: DProbe) -> Json:
    names = ((name, getattr(probe, name)) for name in ("provider", "module", "function", "name"))
    return {"id": probe.number, **{name: string(text) for name, text in names}}


def _details(of: ProbeStability) -> Json:
    return {
        "stability": str(of.description),
        "arguments_stability": str(of.arguments),
        "arguments": list(of.types),
        "locals": [
            {"name": each.shown, "type": string(each.type), "places": each.places, "of": each.of} for each in of.locals
        ],
        "early": [string(why) for why in of.early],
    }


def _printed(one: events.Printed) -> Json:
    given = {} if one.format is None else {"format": string(one.format)}
    return {"action": one.action, **given, "values": [value(each) for each in one.values]}


def snapshot(one: events.Snapshot) -> Json:
    """The rows of one aggregation, or of several side by side."""
    columns = [_column(each.aggregation, each.normal) for each in one.columns]
    return {"final": one.final, "aggregations": columns, "rows": [_row(row) for row in one.rows]}


def _column(of: Aggregation, normal: int) -> Json:
    return {"name": of.name, "function": of.what.function.value, "normal": normal}


def _row(row: events.SnapshotRow) -> Json:
    made: Json = {"keys": [value(key) for key in row.keys], "values": [value(total) for total in row.totals]}
    if any(row.processors):
        made["cpus"] = [[{"cpu": cpu, "value": value(of)} for cpu, of in column] for column in row.processors]
    return made


def _fault(one: events.Faulted) -> Json:
    address, why = one.address & (1 << 64) - 1, FAULTS[kind_of(one.kind)]
    return {**_probe(one.probe), "clause": one.clause, "fault": one.kind, "why": why, "address": address}


def _failed(one: events.ActionFailed) -> Json:
    return {**_probe(one.probe), "clause": one.clause, "action": one.action, "why": string(one.why)}


def _fired(one: events.ProbeFired) -> Json:
    when = {"time": one.time, "cpu": one.cpu, "pid": one.pid, "tid": one.tid}
    return {**when, **_probe(one.probe), "clause": one.clause}


#: The name in JSON of each type of event, and the function that makes its members.
_EVENTS: dict[type, tuple[str, Callable[[Any], Json]]] = {
    events.Listed: ("probe", lambda one: {**_probe(one.probe), **(_details(one.more) if one.more is not None else {})}),
    events.Matched: ("matched", lambda one: {"of": one.kind, "name": string(one.name), "probes": one.probes}),
    events.Refused: ("refused", lambda one: {**_probe(one.probe), "why": string(one.reason)}),
    events.Lowered: ("lowered", lambda one: {"option": one.option, "bytes": one.size}),
    events.Began: ("began", lambda one: {"process": one.process}),
    events.ProbeFired: ("fired", _fired),
    events.Printed: ("printed", _printed),
    events.Snapshot: ("snapshot", snapshot),
    events.Cleared: ("cleared", lambda one: {"name": one.aggregation}),
    events.Truncated: ("truncated", lambda one: {"name": one.aggregation, "keep": one.keep}),
    events.Normalized: ("normalized", lambda one: {"name": one.aggregation, "by": one.by}),
    events.OptionSet: ("option", lambda one: {"name": one.name, "value": one.value}),
    events.CommandRan: ("system", lambda one: {"command": string(one.command), "status": one.status}),
    events.Redirected: ("freopen", lambda one: {"file": string(one.file)}),
    events.Emptied: ("ftruncate", lambda one: {}),
    events.Dropped: ("dropped", lambda one: {"kind": one.kind.name.lower(), "cpu": one.cpu, "count": one.count}),
    events.Faulted: ("faulted", _fault),
    events.ActionFailed: ("failed", _failed),
    events.Corrupted: ("corrupted", lambda one: {"what": string(one.what)}),
    events.Ended: ("ended", lambda one: {}),
    events.Noted: ("noted", lambda one: {"text": string(one.text)}),
    events.Exited: ("exited", lambda one: {"status": one.status, "restored": one.restored}),
}
