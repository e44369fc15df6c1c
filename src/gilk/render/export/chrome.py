# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trace Event JSON, which chrome://tracing, Perfetto, Speedscope and others read.

A call is a complete event ("X"); times are in microseconds since the session began. A thread that is divided into
stacks has a number of its own for each stack, since calls of one thread must nest in this format.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gilk.render.process_names import process_names
from gilk.trace.flow import STATES, Flow
from gilk.trace.nesting import Ints
from gilk.trace.paths import Symbol, symbols_of
from gilk.trace.reading import Trace

_CHUNK = 20_000  # in calls
_STACK_NUMBER = 1 << 31  # beyond all thread numbers


def parts(trace: Trace) -> Iterator[str]:
    """The text of the file, in pieces."""
    flow = trace.flow
    yield '{"displayTimeUnit":"ns","otherData":' + _json(_other(trace)) + ',"traceEvents":[\n'
    yield ",\n".join(_json(each) for each in _named(trace, flow))
    numbers, named = _track_numbers(flow), symbols_of(flow)
    for rows, number in zip(flow.tracks, numbers, strict=True):
        for first in range(rows.start, rows.stop, _CHUNK):
            yield ",\n" + ",\n".join(_calls(flow, named, range(first, min(first + _CHUNK, rows.stop)), number))
    for each in _marks(flow):
        yield ",\n" + _json(each)
    yield "\n]}\n"


def _calls(flow: Flow, named: tuple[Ints, tuple[Symbol, ...]], rows: range, number: int) -> Iterator[str]:
    """The events of the calls in ``rows``. The part with the name is made once for each symbol, not for each call."""
    symbol, symbols = named
    part = slice(rows.start, rows.stop)
    heads = [f'{{"ph":"X","name":{_json(name)},"cat":"{lane}"' for name, _, lane in symbols]
    images = [_json(image) for _, image, _ in symbols]
    columns = (symbol, flow.column("start"), flow.column("duration"), flow.column("state"))
    pid, states = int(flow.column("pid")[rows.start]), flow.names("state")
    for which, start, duration, state in zip(*(column[part].tolist() for column in columns), strict=True):
        times = f'"ts":{_micro(start)},"dur":{_micro(duration)}'
        ending = "" if states[state] == STATES[0] else f',"state":"{states[state]}"'
        yield f'{heads[which]},"pid":{pid},"tid":{number},{times},"args":{{"image":{images[which]}{ending}}}}}'


def _named(trace: Trace, flow: Flow) -> Iterator[dict[str, Any]]:
    command = " ".join(trace.about.command)
    firsts = [flow.table.slice(rows.start, 1).to_pylist()[0] for rows in flow.tracks]
    names = process_names(flow)
    for pid in sorted({first["pid"] for first in firsts} | set(trace.about.pids[:1])):
        name = command or names.get(pid) or f"process {pid}"
        yield {"ph": "M", "name": "process_name", "pid": pid, "tid": pid, "args": {"name": name}}
    for first, number in zip(firsts, _track_numbers(flow), strict=True):
        name = first["thread"] or str(first["tid"])
        name += f", stack {first['stack'] + 1}" if first["stack"] else ""
        yield {"ph": "M", "name": "thread_name", "pid": first["pid"], "tid": number, "args": {"name": name}}


def _track_numbers(flow: Flow) -> list[int]:
    """The number of each track: that of its thread, or for further stacks of a thread one that no thread has."""
    found = []
    for n, rows in enumerate(flow.tracks):
        stack = int(flow.column("stack")[rows.start])
        found.append(_STACK_NUMBER + n if stack else int(flow.column("tid")[rows.start]))
    return found


def _marks(flow: Flow) -> Iterator[dict[str, Any]]:
    """Instants at which records were dropped, and at which functions were no longer followed."""
    for pid, tid, time in flow.gaps:
        yield {"ph": "i", "s": "t", "name": "records dropped", "cat": "gilk", "pid": pid, "tid": tid, "ts": time / 1000}
    for each in flow.omitted:
        arguments = {"function": each.function, "image": each.image, "calls": each.calls}
        yield {"ph": "i", "s": "g", "name": "no longer followed", "cat": "gilk", "pid": 0, "tid": 0,
               "ts": each.from_ns / 1000, "args": arguments}  # fmt: skip


def _other(trace: Trace) -> dict[str, Any]:
    about, traced = trace.about, trace.tally.trace
    return {
        "command": list(about.command),
        "host": about.host,
        "drops": trace.tally.drops,
        "partial": trace.tally.partial,
        **({"from": traced.start_event, "to": traced.stop_event, "scope": traced.scope} if traced else {}),
    }


def _micro(nanoseconds: int) -> str:
    """The time in microseconds, exactly: a float would not be exact after a few months."""
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
