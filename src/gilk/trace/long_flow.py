# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes a `CallIndex` of the calls of a file of samples in bounded memory: it reads the file a part at a time.

`part_reading` leaves plain calls out of each part, `flow_build` makes the flow of the rest, and the plain calls are put
between. Files for which that would not be exact raise `Whole`, and have to be handled as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa

from gilk.cache.columns import Room
from gilk.trace import call_index, flow_build
from gilk.trace.about import About, Tally
from gilk.trace.call_index import TYPES, CallIndex, Column, Track, levels_room, track_of
from gilk.trace.flow import KERNEL, CallState, Flow
from gilk.trace.flow_build import Around
from gilk.trace.nesting import Ints
from gilk.trace.part_reading import PLAIN, PartReading, Spool, Whole
from gilk.trace.paths import symbols_of
from gilk.trace.pyramid import levels_of

COLUMNS = ("time", "pid", "tid", "thread", "point", "function", "kind", "sp")


def index(
    parts: Iterator[pa.Table], about: About, tally: Tally, columns: Room, progress: Callable[[int], None]
) -> tuple[CallIndex, Flow, pa.Table]:
    """The index; and the flow without plain calls, and its samples. ``parts`` must have COLUMNS. ``columns`` makes
    room, and is called once. ``progress`` is given the number of samples read so far. Raises Whole, OSError.
    """
    with reading(parts, about, tally, progress) as joining:
        found, flow = joining.made(columns)
        return found, flow, joining.samples


@contextmanager
def reading(
    parts: Iterator[pa.Table], about: About, tally: Tally, progress: Callable[[int], None], spool: Spool | None = None
) -> Iterator[Joining]:
    """The parts when all have been read; ``spool`` as in PartReading. Raises Whole, OSError."""
    if tally.trace is not None and tally.trace.depth:
        raise Whole("some depths are left out")
    with PartReading(about, tally, spool) as read:
        done = 0
        for table in parts:
            read.take(table)
            done += table.num_rows
            progress(done)
        if read.seen.shared(read.processes()):
            raise Whole("threads have used the same addresses")
        yield Joining(read, about, tally)


class Joining:
    """Puts plain calls among those of the flow of the rest."""

    def __init__(self, reading: PartReading, about: About, tally: Tally) -> None:
        self._reading, self._parts = reading, reading.parts
        whole = [each.table for each in self._parts]
        samples = pa.concat_tables(whole).unify_dictionaries() if whole else None
        if samples is None:
            raise Whole("there are no samples")
        self.samples = samples
        number = np.concatenate([each.reduced.number for each in self._parts])
        self._built = flow_build.build_placed(samples, about, tally, Around(number, self._next_times()))
        self._flow = self._built.flow
        self._threads = len(reading.threads)

    def _next_times(self) -> Ints:
        """The time of the event behind each kept sample; the event behind the last one of a part is the first of the
        next.
        """
        found: list[Ints] = []
        following = -1
        for part in reversed(self._parts):
            found.append(np.where(part.next_time < 0, following, part.next_time))
            following = following if part.first_time is None else part.first_time
        return np.concatenate(found[::-1])

    @property
    def plain(self) -> int:
        """The number of plain calls."""
        return sum(int(each.reduced.plain.counts.sum()) for each in self._parts)

    def checked(self) -> Flow:
        """The flow without plain calls. Raises Whole."""
        self._check()
        self._track_of_thread([track_of(self._flow, rows) for rows in self._flow.tracks])
        for _ in self._record_depths():
            pass
        return self._flow

    def made(self, columns: Room) -> tuple[CallIndex, Flow]:
        """The index, and the flow without plain calls. Raises Whole."""
        flow = self._flow
        self._check()
        tracks = [track_of(flow, rows) for rows in flow.tracks]
        self._track_of_thread(tracks)
        positions = self._positions()
        depths = self._depths()
        counts = self._row_counts(depths, tracks)
        heights = [len(each) for each in counts]
        first = np.cumsum(np.concatenate([[0], *counts])).astype(np.int64)
        total = int(first[-1])
        tracks = [
            replace(track, calls=int(mine.sum()), rows=high)
            for track, mine, high in zip(tracks, counts, heights, strict=True)
        ]
        room = columns({**{name: (kind, total) for name, kind in TYPES.items()}, **levels_room(total)})
        self._fill(room, first, np.cumsum([0, *heights]), tracks, positions, depths)
        top_rows = np.cumsum([0, *heights])[:-1]
        room["self"][:] = call_index.self_times(room, first, top_rows)
        for number, level in enumerate(levels_of(room["duration"])):
            room[f"level-{number}"][:] = level
        found = CallIndex(tuple(tracks), symbols_of(flow)[1], flow.start_ns, flow.stop_ns, flow.gaps, first, room)
        return found, flow

    def _check(self) -> None:
        """Raises Whole if the lemma of reduction.py does not hold."""
        flow, rows = self._flow, self._built.rows
        sp = np.concatenate([np.asarray(each.table["sp"]) for each in self._parts]).astype(np.int64)[rows]
        parent, kernel = flow.column("parent"), flow.is_named("lane", KERNEL)
        inner = np.flatnonzero(parent >= 0)
        outer = parent[inner]
        crossing = kernel[inner] != kernel[outer]
        if np.where(crossing, ~kernel[inner], sp[outer] <= sp[inner]).any():
            raise Whole("calls do not lie below those that made them")
        late = np.flatnonzero(flow.is_state(CallState.BEFORE) & kernel)
        stop = flow.column("start") + flow.column("duration")
        thread = self._thread_of_kept()[rows]
        for call in late.tolist():
            if self._reading.kernel_from.get(int(thread[call]), 1 << 62) < stop[call]:
                raise Whole("the kernel returned from what it had not entered")

    def _thread_of_kept(self) -> Ints:
        return np.concatenate([each.thread for each in self._parts]).astype(np.int64)

    def _track_of_thread(self, tracks: list[Track]) -> None:
        """Set `_track`: for each thread the number of its track, -1 if it has no plain calls and several tracks. Raises
        Whole.
        """
        left_out = np.zeros(self._threads, np.int64)
        for part in self._parts:
            counts = part.reduced.plain.counts
            left_out[: len(counts)] += counts
        found: dict[int, list[int]] = {}
        for number, track in enumerate(tracks):
            found.setdefault(self._reading.threads[track.pid << 32 | track.tid & 0xFFFFFFFF], []).append(number)
        self._track = np.full(self._threads, -1, np.int64)
        for thread, mine in found.items():
            if len(mine) == 1:
                self._track[thread] = mine[0]
            elif left_out[thread]:
                raise Whole("a thread has several stacks")
        if (left_out[self._track < 0] > 0).any():
            raise Whole("a thread has calls of which nothing is left")

    def _positions(self) -> tuple[Ints, Ints]:
        """The part in which each call of the flow begins, and the number of plain calls of its thread before it in that
        part.
        """
        kept_thread = self._thread_of_kept()
        before = np.concatenate([each.reduced.before for each in self._parts])
        sizes = [each.table.num_rows for each in self._parts]
        part_of = np.repeat(np.arange(len(sizes)), sizes)
        begin, events = self._built.begin, self._built.events
        rows = events[np.maximum(begin // 2, 0)]
        call_thread = kept_thread[self._built.rows]
        part, count = part_of[rows], before[rows]
        between = np.flatnonzero((begin < 0) | (begin % 2 == 1))
        for call in between.tolist():
            part[call], count[call] = self._last_before(int(call_thread[call]), int(rows[call]), int(begin[call]))
        return part, count

    def _last_before(self, thread: int, row: int, begin: int) -> tuple[int, int]:
        if begin < 0:
            return 0, 0
        kept = self._kept_by_thread(thread)
        at = int(np.searchsorted(kept, row, side="right")) - 1
        if at < 0:
            return 0, 0
        found = int(kept[at])
        sizes = np.cumsum([0, *(each.table.num_rows for each in self._parts)])
        part = int(np.searchsorted(sizes, found, side="right")) - 1
        return part, int(self._parts[part].reduced.before[found - sizes[part]])

    def _kept_by_thread(self, thread: int) -> Ints:
        if not hasattr(self, "_by_thread"):
            self._by_thread: dict[int, Ints] = {}
            self._events_only = np.zeros(len(self._thread_of_kept()), np.bool_)
            self._events_only[self._built.events] = True
        if thread not in self._by_thread:
            mine = (self._thread_of_kept() == thread) & self._events_only
            self._by_thread[thread] = np.flatnonzero(mine)
        return self._by_thread[thread]

    def _record_depths(self) -> Iterator[Ints]:
        """The depths of the plain calls that were kept, part by part. Raises Whole."""
        flow, whole = self._flow, self._flow.is_state(CallState.WHOLE)
        total = sum(each.table.num_rows for each in self._parts)
        depth_at = np.full(total, -1, np.int64)
        depth_at[self._built.rows[whole]] = flow.column("depth")[whole]
        base = 0
        for part in self._parts:
            depth = depth_at[part.reduced.plain.record + base]
            if (depth < 0).any():
                raise Whole("a plain call is none")
            yield depth
            base += part.table.num_rows

    def _depths(self) -> list[Column]:
        """The depth of each plain call, part by part."""
        found = []
        for part, depth in zip(self._parts, self._record_depths(), strict=True):
            plain = part.reduced.plain
            inside = depth - plain.record_level
            after = np.maximum(depth, np.append(depth[1:], -1)) - plain.record_level
            counts = np.stack([plain.inside, plain.after], axis=1).ravel()
            shifts = np.repeat(np.stack([inside, after], axis=1).ravel(), counts)
            found.append((self._reading.spool.get(part.spooled["levels"]) + shifts).astype(np.int32))
        return found

    def _row_counts(self, depths: list[Column], tracks: list[Track]) -> list[Ints]:
        """The number of calls in each row of a track, track by track."""
        flow = self._flow
        counts = [np.bincount(flow.column("depth")[rows.start : rows.stop]) for rows in flow.tracks]
        for part, depth in zip(self._parts, depths, strict=True):
            edges = np.cumsum(np.append(0, part.reduced.plain.counts))
            for thread in np.flatnonzero(part.reduced.plain.counts).tolist():
                mine = np.bincount(depth[edges[thread] : edges[thread + 1]])
                known = counts[self._track[thread]]
                size = max(len(mine), len(known))
                both = [np.pad(each, (0, size - len(each))) for each in (mine, known)]
                counts[self._track[thread]] = both[0] + both[1]
        return counts

    def _fill(
        self, room: dict[str, Column], first: Ints, first_rows: Ints, tracks: list[Track],
        positions: tuple[Ints, Ints], depths: list[Column],
    ) -> None:  # fmt: skip
        flow = self._flow
        ours = self._own_columns()
        to_symbol = self._symbol_numbers()
        at = first[:-1].copy()  # the next free place of each row
        number = np.cumsum([0, *(track.calls for track in tracks)])[:-1]
        by_track = [(rows, positions[0][rows.start : rows.stop]) for rows in flow.tracks]
        threads = {int(track): thread for thread, track in enumerate(self._track.tolist()) if track >= 0}
        for which, part in enumerate(self._parts):
            plain = {name: self._reading.spool.get(part.spooled[name]) for name in PLAIN[:3]}
            edges = np.cumsum(np.append(0, part.reduced.plain.counts))
            for track, (rows, places) in enumerate(by_track):
                mine = np.flatnonzero(places == which) + rows.start
                thread = threads.get(track, len(edges))
                span = slice(int(edges[thread]), int(edges[thread + 1])) if thread + 1 < len(edges) else slice(0, 0)
                values = _merged(plain, depths[which], span, ours, mine, positions[1][mine], to_symbol)
                if len(values["depth"]):
                    _put(room, values, at[first_rows[track] : first_rows[track + 1]], int(number[track]))
                    number[track] += len(values["depth"])

    def _own_columns(self) -> dict[str, Column]:
        flow = self._flow
        state = np.zeros(flow.table.num_rows, np.uint8)
        for number, each in enumerate(CallState):
            state[flow.is_state(each)] = number
        columns = {name: flow.column(name).astype(np.int64) for name in ("start", "duration", "depth")}
        return {**columns, "symbol": symbols_of(flow)[0], "state": state}

    def _symbol_numbers(self) -> Ints:
        """The number of each symbol that was read among those of the flow; the flow has a call of every symbol."""
        known = {symbol: number for number, symbol in enumerate(symbols_of(self._flow)[1])}
        return np.array([known.get(symbol, -1) for symbol in self._reading.symbols], np.int64)


def _merged(
    plain: dict[str, Column],
    depth: Column,
    span: slice,
    ours: dict[str, Column],
    mine: Ints,
    before: Ints,
    symbols: Ints,
) -> dict[str, Column]:
    """The plain calls and the others of a thread in a part, in the order of their numbers."""
    count = span.stop - span.start
    places = before + np.arange(len(mine))
    rest = np.ones(count + len(mine), np.bool_)
    rest[places] = False
    found: dict[str, Column] = {}
    theirs = {
        "start": plain["start"][span], "duration": plain["duration"][span], "depth": depth[span],
        "symbol": symbols[plain["symbol"][span]], "state": np.zeros(count, np.uint8),
    }  # fmt: skip
    for name, values in theirs.items():
        column = np.empty(len(rest), ours[name].dtype)
        column[rest], column[places] = values, ours[name][mine]
        found[name] = column
    return found


def _put(room: dict[str, Column], values: dict[str, Column], at: Ints, number: int) -> None:
    """Put calls, numbered from ``number`` on, into their rows, and advance the next places ``at`` of the rows."""
    depth = values["depth"]
    order = np.argsort(depth.astype(np.uint16) if len(at) < 1 << 16 else depth, kind="stable")
    edges = np.searchsorted(depth[order], np.arange(len(at) + 1))
    for row in np.flatnonzero(np.diff(edges)).tolist():
        chosen = order[edges[row] : edges[row + 1]]
        there = slice(int(at[row]), int(at[row]) + len(chosen))
        room["call"][there] = chosen + number
        room["place"][chosen + number] = np.arange(there.start, there.stop)
        for name in ("start", "duration", "symbol", "state"):
            room[name][there] = values[name][chosen]
        at[row] += len(chosen)
