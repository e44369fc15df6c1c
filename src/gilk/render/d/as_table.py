# SPDX-License-Identifier: LGPL-2.1-or-later
"""Events as rows of a table, as described in docs/cli/dtrace.md. `VERSION` grows when a column changes its meaning."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gilk.lang.d.probes import DProbe
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
)  # fmt: skip

VERSION = 1
Row = dict[str, Any]
_64 = (1 << 64) - 1

_BUCKET = pa.struct([("bucket", pa.string()), ("value", pa.int64()), ("count", pa.int64())])
#: A value has the members that fit its type, and null for the others.
_VALUE = pa.struct(
    [
        *(("integer", pa.int64()), ("unsigned", pa.uint64()), ("real", pa.float64()), ("text", pa.string())),
        *(("bytes", pa.binary()), ("stack", pa.list_(pa.string())), ("buckets", pa.list_(_BUCKET))),
    ]
)
_NAME = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        *(("type", _NAME), ("record", pa.uint64()), ("time", pa.uint64()), ("cpu", pa.int64())),
        *(("pid", pa.int64()), ("tid", pa.int64()), ("probe", _NAME), ("clause", pa.int64())),
        *(("action", _NAME), ("aggregation", _NAME), ("function", _NAME), ("final", pa.bool_())),
        *(("format", _NAME), ("text", pa.string()), ("data", pa.list_(_VALUE)), ("keys", pa.list_(_VALUE))),
        *(("total", _VALUE), ("normal", pa.uint64()), ("count", pa.uint64())),
    ]
)


class Rows:
    """Makes the rows of one session: each has the facts about the record that it belongs to, and its number, from 1."""

    def __init__(self, printsize: int = 1024, strsize: int = 256) -> None:
        self._sizes = printsize, strsize
        self._number = 0
        self._record: Row = {}
        self._rows: list[Row] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, event: events.Event) -> None:
        match event:
            case events.ProbeFired():
                self._number += 1
                self._record = {"record": self._number, **_fired(event)}
                self._add("fired")
            case events.RecordEnded():
                self._record = {}
            case events.Printed():
                self._add("printed", action=event.action, **self._printed(event))
            case events.Snapshot():
                self._rows += ({**self._record, **row} for row in _aggregated(event))
            case events.Dropped(kind=kind, cpu=cpu, count=count):
                self._add("dropped", text=kind.name.lower(), cpu=cpu, count=count & _64)
            case events.Faulted(kind=kind):
                self._add("faulted", **_where(event.probe, event.clause), text=FAULTS[kind_of(kind)])
            case events.ActionFailed(action=action, why=why):
                self._add("failed", **_where(event.probe, event.clause), action=action, text=_string(why))
            case events.Corrupted(what=text) | events.Noted(text=text):
                self._add("noted", text=_string(text))
            case events.Refused(probe=probe, reason=reason):
                self._add("refused", probe=_string(str(probe)), text=_string(reason))

    def take(self) -> pa.Table:
        """The rows added since the last call."""
        taken, self._rows = self._rows, []
        return pa.Table.from_pylist(taken, SCHEMA)

    def _add(self, kind: str, **columns: Any) -> None:
        self._rows.append({"type": kind, **self._record, **columns})

    def _printed(self, printed: events.Printed) -> Row:
        text = text_of(printed, *self._sizes)
        return {
            "format": None if printed.format is None else _string(printed.format),
            "text": None if text is None else text.decode(errors="backslashreplace"),
            "data": [_value(one) for one in printed.values],
        }


def _where(probe: DProbe, clause: int) -> Row:
    return {"probe": _string(str(probe)), "clause": clause}


def _fired(one: events.ProbeFired) -> Row:
    return {"time": one.time, "cpu": one.cpu, "pid": one.pid, "tid": one.tid, **_where(one.probe, one.clause)}


def _aggregated(snapshot: events.Snapshot) -> list[Row]:
    """A row for each aggregation and key; the processors' own totals (aggpercpu) have the processor as ``cpu``."""
    made = []
    for row in snapshot.rows:
        keys = [_value(key) for key in row.keys]
        for at, column in enumerate(snapshot.columns):
            of = column.aggregation
            told = {
                **{"type": "aggregation", "aggregation": _string(f"@{of.name}"), "function": of.what.function.value},
                **{"final": snapshot.final, "normal": column.normal & _64, "keys": keys},
            }
            made.append({**told, "total": _value(row.totals[at])})
            parts = row.processors[at] if row.processors else ()
            made += ({**told, "cpu": cpu, "total": _value(part)} for cpu, part in parts)
    return made


def _value(one: Value) -> Row:
    match one:
        case Integer():
            return _integer(one.as_typed)
        case Floating(value=value):
            return {"real": value}
        case Text(data=data) | Symbol(text=data):
            return _text(data)
        case Bytes(data=data) | Dump(data=data) | Packet(data=data):
            return {"bytes": data}
        case Memory():
            return {**_integer(one.address), "bytes": one.data}
        case Stack(lines=lines):
            return {"stack": [line.decode(errors="backslashreplace") for line in lines]}
        case Distribution():
            return {"buckets": distribution.rows(one)}


def _integer(value: int) -> Row:
    """The members of an integer; null for a type of column that cannot hold it."""
    return {
        "integer": value if value < 1 << 63 else None,
        "unsigned": value if value >= 0 else None,
    }


def _text(data: bytes) -> Row:
    """The text of ``data``, or its bytes if they are not UTF-8."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"bytes": data}


def _string(text: str) -> str:
    """The text with bytes that are not UTF-8 written as escapes."""
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")
