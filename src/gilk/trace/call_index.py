# SPDX-License-Identifier: LGPL-2.1-or-later
"""The calls of a trace in the order in which a time line draws them, as columns that may lie in a file.

A row is a depth of a track; its calls do not overlap, and come in order of time. A call is identified by its number in
the trace's flow. In a track, a call has a lower number than the calls it made, so numbers grow along a row, and the
caller of a call is the last call with a lower number in the row above.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from gilk.trace.flow import STATES, Flow
from gilk.trace.nesting import Ints
from gilk.trace.paths import Symbol, symbols_of
from gilk.trace.pyramid import TimePyramid, pyramid
from gilk.values import dataclass

Column = np.ndarray[Any, Any]
#: The columns of an index in a file, with their types, in their order.
TYPES = {
    "call": "<i4", "start": "<i8", "duration": "<i8", "self": "<i8", "symbol": "<i4", "state": "u1", "place": "<i4",
}  # fmt: skip
PART = 1 << 20  # the number of calls that are handled at once


@dataclass(frozen=True)
class Track:
    """The calls of a thread, or of one stack of a thread that is divided by stack; ``rows`` is the number of
    its rows.
    """

    pid: int
    tid: int
    thread: str
    stack: int
    calls: int
    rows: int


@dataclass(frozen=True, eq=False)
class CallIndex:
    """The index. ``first``: the place at which each row begins, and at the end that at which the last one ends.
    ``columns`` has, by place: ``call``, ``start`` (ns since the session began), ``duration``, ``self``, ``symbol`` (a
    number in ``symbols``), ``state`` (a number in `flow.STATES`); by call, ``place``; and ``level-0``, ``level-1`` ...,
    the levels of the pyramid.
    """

    tracks: tuple[Track, ...]
    symbols: tuple[Symbol, ...]
    start_ns: int
    stop_ns: int
    gaps: tuple[tuple[int, int, int], ...]
    first: Ints
    columns: Mapping[str, Column]

    @property
    def calls(self) -> int:
        return int(self.first[-1])

    @cached_property
    def levels(self) -> tuple[Column, ...]:
        return tuple(self.columns[name] for name in levels_room(self.calls))

    @cached_property
    def pyramid(self) -> TimePyramid:
        columns = self.columns
        return TimePyramid(columns["call"], self.first, columns["start"], columns["duration"], self.levels)

    @cached_property
    def first_rows(self) -> Ints:
        """The first row of each track, and at the end the number of rows."""
        return np.cumsum([0, *(track.rows for track in self.tracks)])

    def figures(self, parts: Iterable[slice]) -> tuple[Ints, Ints]:
        """The number of calls at the places ``parts``, and the ns that they spent in themselves, both by symbol."""
        count, own = (np.zeros(len(self.symbols), np.int64) for _ in range(2))
        cut = (
            slice(first, min(first + PART, part.stop)) for part in parts for first in range(part.start, part.stop, PART)
        )
        for each in cut:
            symbol = self.columns["symbol"][each]
            count += np.bincount(symbol, minlength=len(count))
            own += np.bincount(symbol, self.columns["self"][each], len(own)).astype(np.int64)
        return count, own

    def states(self) -> dict[str, int]:
        """The number of calls in each state, as `Flow.states`."""
        count = np.zeros(len(STATES), np.int64)
        for first in range(0, self.calls, PART):
            count += np.bincount(self.columns["state"][first : first + PART], minlength=len(STATES))
        return {str(state): int(number) for state, number in zip(STATES, count, strict=True)}

    def row(self, place: int) -> int:
        return int(np.searchsorted(self.first, place, side="right")) - 1

    def around(self, place: int) -> int:
        """The place of the caller of the call at ``place``; -1 if it has none."""
        row = self.row(place)
        if row in self.first_rows:
            return -1
        return self._before(row - 1, int(self.columns["call"][place])) - 1

    def inside(self, place: int) -> slice:
        """The places of the callees of the call at ``place``."""
        row, columns = self.row(place), self.columns["call"]
        if row + 1 >= len(self.first) - 1 or row + 1 in self.first_rows:
            return slice(0, 0)
        number = int(columns[place])
        behind = int(columns[place + 1]) if place + 1 < self.first[row + 1] else self._behind(row)
        return slice(self._before(row + 1, number), self._before(row + 1, behind))

    def _behind(self, row: int) -> int:
        """The first number behind those of the row's track."""
        track = int(np.searchsorted(self.first_rows, row, side="right"))
        return sum(each.calls for each in self.tracks[:track])

    def _before(self, row: int, number: int) -> int:
        """The place in a row behind all calls with a lower number."""
        begin, end = int(self.first[row]), int(self.first[row + 1])
        return begin + int(np.searchsorted(self.columns["call"][begin:end], number))


def of_flow(flow: Flow) -> CallIndex:
    """The index of a whole flow, made in memory."""
    made = pyramid(flow)
    symbol, symbols = symbols_of(flow)
    state = np.zeros(len(symbol), np.uint8)
    for number, each in enumerate(STATES):
        state[flow.is_state(each)] = number
    place = np.empty(len(made.call), np.int64)
    place[made.call] = np.arange(len(made.call))
    by_call: dict[str, Column] = {"self": flow.self_times, "symbol": symbol, "state": state}
    columns: dict[str, Column] = {name: values[made.call] for name, values in by_call.items()}
    columns |= {"call": made.call, "start": made.start, "duration": made.duration, "place": place}
    typed = {name: columns[name].astype(kind) for name, kind in TYPES.items()}
    typed |= {f"level-{number}": each.astype("<i4") for number, each in enumerate(made.levels)}
    found = tuple(track_of(flow, rows) for rows in flow.tracks)
    return CallIndex(found, symbols, flow.start_ns, flow.stop_ns, flow.gaps, made.first, typed)


def levels_room(calls: int) -> dict[str, tuple[str, int]]:
    """The columns of the pyramid's levels for so many calls: name -> (type, length)."""
    found: dict[str, tuple[str, int]] = {}
    while calls >= 4:
        calls //= 4
        found[f"level-{len(found)}"] = ("<i4", calls)
    return found


def track_of(flow: Flow, rows: range) -> Track:
    first: dict[str, Any] = flow.table.slice(rows.start, 1).to_pylist()[0]
    deepest = int(flow.column("depth")[rows.start : rows.stop].max())
    return Track(first["pid"], first["tid"], first["thread"] or "", first["stack"], len(rows), deepest + 1)


def self_times(columns: Mapping[str, Column], first: Ints, top_rows: Ints) -> Ints:
    """The duration of each call without that of its callees, by place. ``top_rows`` are the rows that have none above
    them.
    """
    duration = columns["duration"]
    within = np.zeros(len(duration), np.float64)  # exact up to 2**53 ns, 104 days
    for row in range(len(first) - 1):
        if row in top_rows:
            continue
        above, places = slice(int(first[row - 1]), int(first[row])), slice(int(first[row]), int(first[row + 1]))
        for begin, outer in around(columns, above, places):
            sums = np.bincount(outer - outer[0], duration[begin : begin + len(outer)])
            low = above.start + int(outer[0])
            within[low : low + len(sums)] += sums
    return duration - within.astype(np.int64)


def around(columns: Mapping[str, Column], above: slice, places: slice) -> Iterator[tuple[int, Ints]]:
    """The caller of each call of the row at ``places``, counted from the first call of the row ``above``; part by part,
    each with the place at which the part begins.
    """
    last = 0
    for begin in range(places.start, places.stop, PART):
        part = slice(begin, min(begin + PART, places.stop))
        before = columns["place"][columns["call"][part] - 1]
        leads = (before >= above.start) & (before < above.stop)  # the first callee of a call has the next number
        found = np.where(leads, before - above.start, -1).astype(np.int64)
        found[0] = max(int(found[0]), last)
        found = np.maximum.accumulate(found)
        last = int(found[-1])
        yield begin, found
