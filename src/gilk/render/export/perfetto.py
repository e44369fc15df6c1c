# SPDX-License-Identifier: LGPL-2.1-or-later
"""Perfetto's own format: a track per thread, and on it a slice per call, which begins and ends with a packet each.

The numbers are those of protos/perfetto/trace/perfetto_trace.proto; a test reads the output with the project's own
description of it. Times are of CLOCK_MONOTONIC.
"""

from __future__ import annotations

from collections.abc import Iterator

from gilk.render.export.protobuf import message, number, text
from gilk.render.process_names import process_names
from gilk.trace.flow import STATES, Flow
from gilk.trace.nesting import Ints
from gilk.trace.paths import Symbol, symbols_of
from gilk.trace.reading import Trace

# TracePacket, in Trace.packet
_PACKET, _SNAPSHOT, _TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _CLOCK, _TRACK = 1, 6, 8, 10, 11, 12, 13, 58, 60
_CLEARED, _NEEDS = 1, 2  # sequence flags: earlier interned names are forgotten, and are needed
_REALTIME, _MONOTONIC, _BOOT = 1, 3, 6
# TrackEvent
_ANNOTATION, _CATEGORIES, _TYPE, _NAME, _ON = 4, 3, 9, 10, 11
_BEGIN, _END, _INSTANT = 1, 2, 3
_OUR_SEQUENCE = 1


def parts(trace: Trace) -> Iterator[bytes]:
    """The bytes of the file, in pieces."""
    flow, start = trace.flow, trace.about.start
    yield _clocks(trace)
    yield from _tracks(trace, flow)
    named = symbols_of(flow)
    yield _names(flow, named[1])
    for track, rows in enumerate(flow.tracks):
        yield from _slices(flow, named, rows, track, start)
    yield from _marks(flow, start)


def _packet(*fields: bytes) -> bytes:
    return message(_PACKET, *fields, number(_SEQUENCE, _OUR_SEQUENCE))


def _clocks(trace: Trace) -> bytes:
    """The same moment on the clocks that readers know; Clock: clock_id 1, timestamp 2.

    The clock that counts from the boot is not known: it is taken to be the monotonic one, from which it differs by the
    time that the machine has slept.
    """
    about = trace.about
    readings = ((_REALTIME, about.start + about.realtime), (_MONOTONIC, about.start), (_BOOT, about.start))
    clocks = (message(1, number(1, clock), number(2, max(reading, 0))) for clock, reading in readings)
    return _packet(message(_SNAPSHOT, *clocks))


def _uuid(track: int) -> int:
    return track + 1_000_000


def _tracks(trace: Trace, flow: Flow) -> Iterator[bytes]:
    """A track for each process, thread and stack; uuid 1, name 2, process 3, thread 4, parent_uuid 5."""
    command = trace.about.command
    first_of: dict[tuple[int, int], int] = {}
    processes: set[int] = set()
    names = process_names(flow)
    for n, rows in enumerate(flow.tracks):
        row = flow.table.slice(rows.start, 1).to_pylist()[0]
        pid, tid = row["pid"], row["tid"]
        if pid not in processes:
            processes.add(pid)
            line = b"".join(text(2, word) for word in command)
            name = text(6, command[0] if command else names.get(pid) or f"process {pid}")
            yield _packet(message(_TRACK, number(1, pid + 1), message(3, number(1, pid), line, name)))
        if (pid, tid) in first_of:
            name, parent = text(2, f"stack {row['stack'] + 1}"), number(5, _uuid(first_of[pid, tid]))
            yield _packet(message(_TRACK, number(1, _uuid(n)), name, parent))
            continue
        first_of[pid, tid] = n
        thread = message(4, number(1, pid), number(2, tid), text(5, row["thread"] or str(tid)))
        yield _packet(message(_TRACK, number(1, _uuid(n)), number(5, pid + 1), thread))


def _names(flow: Flow, symbols: tuple[Symbol, ...]) -> bytes:
    """The names, which are written once; slices refer to their numbers. event_categories 1, event_names 2; of each iid
    1, name 2.
    """
    lanes = flow.names("lane") if flow.table.num_rows else []
    names = [message(2, number(1, n + 1), text(2, name)) for n, (name, _, _) in enumerate(symbols)]
    categories = [message(1, number(1, n + 1), text(2, lane)) for n, lane in enumerate(lanes)]
    return _packet(message(_INTERNED, *categories, *names), number(_FLAGS, _CLEARED))


def _slices(flow: Flow, named: tuple[Ints, tuple[Symbol, ...]], rows: range, track: int, start: int) -> Iterator[bytes]:
    """The packet of each call's beginning, after the packets that end earlier slices which do not contain it."""
    symbol, symbols = named
    images, states = [text(6, image) for _, image, _ in symbols], flow.names("state")
    lanes = flow.column("lane").tolist()
    ends: list[int] = []
    end = _end(track)
    part = slice(rows.start, rows.stop)
    columns = [flow.column(name)[part].tolist() for name in ("start", "duration", "depth", "state")]
    for call, (begin, duration, depth, state) in enumerate(zip(*columns, strict=True), rows.start):
        while len(ends) > depth:
            yield end(start + ends.pop())
        which = int(symbol[call])
        notes = _note("image", images[which])
        notes += _note("state", text(6, states[state])) if states[state] != STATES[0] else b""
        event = number(_TYPE, _BEGIN) + number(_ON, _uuid(track)) + number(_NAME, which + 1)
        event += number(_CATEGORIES, lanes[call] + 1) + notes
        yield _timed(start + begin, event)
        ends.append(begin + duration)
    while ends:
        yield end(start + ends.pop())


class _end:
    """Makes the packets that end slices of a track, which differ only in the time."""

    def __init__(self, track: int) -> None:
        self._event = number(_TYPE, _END) + number(_ON, _uuid(track))

    def __call__(self, time: int) -> bytes:
        return _timed(time, self._event)


def _timed(time: int, event: bytes) -> bytes:
    fields = number(_TIMESTAMP, time), number(_CLOCK, _MONOTONIC), message(_EVENT, event), number(_FLAGS, _NEEDS)
    return _packet(*fields)


def _note(name: str, value: bytes) -> bytes:
    """A DebugAnnotation: name 10, and a value; its string_value is 6."""
    return message(_ANNOTATION, text(10, name), value)


def _marks(flow: Flow, start: int) -> Iterator[bytes]:
    """Instants at which records were dropped, and at which functions were no longer followed; name 23 is not a number
    here.
    """
    tracks = {}
    for n, rows in reversed([*enumerate(flow.tracks)]):
        tracks[int(flow.column("pid")[rows.start]), int(flow.column("tid")[rows.start])] = _uuid(n)
    for pid, tid, time in flow.gaps:
        on = number(_ON, tracks[pid, tid]) if (pid, tid) in tracks else b""
        yield _timed(start + time, number(_TYPE, _INSTANT) + on + text(23, "records dropped"))
    for each in flow.omitted:
        notes = _note("function", text(6, each.function)) + _note("calls", number(3, each.calls))
        yield _timed(start + each.from_ns, number(_TYPE, _INSTANT) + text(23, "no longer followed") + notes)
