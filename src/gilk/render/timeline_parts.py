# SPDX-License-Identifier: LGPL-2.1-or-later
"""The parts of a time line that are asked for one by one, of a trace that is too large to be drawn whole.

All times are ns since the trace's start. A call is named by its number in the trace's flow.
"""

from __future__ import annotations

import base64
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gilk.errors import UsageError
from gilk.render import timeline
from gilk.trace.flow import CallState
from gilk.trace.nesting import Bools, Ints
from gilk.trace.paths import symbols_of
from gilk.trace.pyramid import TimePyramid, heights, pyramid
from gilk.trace.reading import Trace

Json = dict[str, Any]
PIXELS: Final = 512  # of a tile
ROWS: Final = 32  # of a tile
_MOST_SEARCHES: Final = 4  # whose pyramids are kept
_MOST_CHILDREN: Final = 50
_MOST_FUNCTIONS: Final = 25
_WIDEST: Final = 1 << 40  # ns of a pixel
_STATES: Final = tuple(CallState)


class TimelineParts:
    """``trace`` is one with the names that are to be shown."""

    def __init__(self, trace: Trace) -> None:
        self._trace, self._flow = trace, trace.flow
        self._symbol, self.symbols = symbols_of(self._flow)
        self._start = self._flow.column("start").astype(np.int64) - self._flow.start_ns
        self._duration = self._flow.column("duration").astype(np.int64)
        self._parent = self._flow.column("parent")
        self._pyramid = pyramid(self._flow)
        self._searches: dict[str, TimePyramid] = {}
        self._known: dict[int, Json] = {}  # figures of functions

    @cached_property
    def head(self) -> Json:
        """Threads with their rows, functions, and all that is said of the trace; without calls."""
        found, first = timeline.summary(self._trace), 0
        for track, rows in zip(found["tracks"], heights(self._flow), strict=True):
            track["rows"], track["first"] = rows, first
            first += rows
        return {**found, "rows": first, "states": [str(state) for state in _STATES]}

    @cached_property
    def _state(self) -> NDArray[np.uint8]:
        """Places in `_STATES`."""
        found = np.zeros(len(self._start), np.uint8)
        for number, state in enumerate(_STATES):
            found[self._flow.is_state(state)] = number
        return found

    @cached_property
    def _self_times(self) -> Ints:
        return self._flow.self_times

    @cached_property
    def _drawn(self) -> tuple[NDArray[np.int32], Ints]:
        """The symbol and the time in itself of each call, in the pyramid's order."""
        return self._symbol[self._pyramid.call].astype(np.int32), self._self_times[self._pyramid.call]

    @cached_property
    def _gap_times(self) -> Ints:
        return np.unique(np.array([at for _, _, at in self._flow.gaps], np.int64))

    def tile(self, zoom: int, number: int, chunk: int, query: str) -> Json:
        """Tile `number` of those whose pixels are 2 ** zoom ns wide, of rows ROWS * chunk and on; ``query``: only calls
        of functions whose names have that in them. Raises UsageError `bad-range`.

        ``data`` is base64 of, for each of ``calls``: start and duration (64-bit floats), number, count in its pixel,
        symbol (32-bit), row and state (a byte each): a column after the other, little-endian.
        """
        width = 1 << zoom if 0 <= zoom < 64 else _WIDEST + 1
        if width > _WIDEST or not 0 <= number < 1 << 40 or not 0 <= chunk < 1 << 20:
            raise UsageError("bad-range", "there is no such part of a time line")
        begin = self._flow.start_ns + number * width * PIXELS
        if not -(1 << 62) < begin < 1 << 62:
            raise UsageError("bad-range", "there is no such part of a time line")
        rows = range(chunk * ROWS, min((chunk + 1) * ROWS, self._pyramid.rows))
        found = self._of(query).tile(begin, PIXELS, width, rows)
        columns = (
            (found.start - self._flow.start_ns).astype("<f8"), found.duration.astype("<f8"), found.call.astype("<u4"),
            found.count.astype("<u4"), self._symbol[found.call].astype("<u4"), (found.row - rows.start).astype("u1"),
            self._state[found.call],
        )  # fmt: skip
        data = base64.b64encode(b"".join(column.tobytes() for column in columns)).decode()
        return {"calls": len(found.call), "data": data, "gaps": self._gaps(begin, PIXELS * width, width)}

    def _gaps(self, begin: int, length: int, width: int) -> list[int]:
        """The times at which records were dropped, one for each pixel."""
        first, last = np.searchsorted(self._gap_times, [begin, begin + length])
        times = self._gap_times[first:last]
        chosen = np.unique((times - begin) // width, return_index=True)[1]
        found: list[int] = (times[chosen] - self._flow.start_ns).tolist()
        return found

    def _of(self, query: str) -> TimePyramid:
        if not query:
            return self._pyramid
        if query not in self._searches:
            while len(self._searches) >= _MOST_SEARCHES:
                del self._searches[next(iter(self._searches))]
            self._searches[query] = self._pyramid.only(self._matching(query))
        return self._searches[query]

    def _matching(self, query: str) -> Bools:
        """A mask of the calls of functions that are searched for."""
        words = query.casefold()
        named = np.array([words in name.casefold() for name, _, _ in self.symbols] or [False])
        return named[self._symbol]

    def call(self, number: int) -> Json:
        """A call, those around it, those it made, and the function's figures. Raises UsageError `no-such-call`."""
        if not 0 <= number < len(self._start):
            raise UsageError("no-such-call", f"the trace has no call {number}")
        before, after = self._pyramid.neighbours(number)
        children = np.flatnonzero(self._parent == number)
        longest = children[np.argsort(-self._duration[children], kind="stable")]
        row = int(np.searchsorted(self._pyramid.first, self._pyramid.place[number], side="right")) - 1
        return {
            **self._named(number),
            "row": row,
            "before": before,
            "after": after,
            "callers": [self._named(each) for each in self._callers(number)],
            "children": [self._named(int(each)) for each in longest[:_MOST_CHILDREN]],
            "made": len(children),
            **self._figures(int(self._symbol[number])),
        }

    def _figures(self, symbol: int) -> Json:
        """The same figures over all calls of a function."""
        if symbol not in self._known:
            same = np.flatnonzero(self._symbol == symbol)
            times = self._duration[same]
            self._known[symbol] = {
                "function_calls": len(same),
                "function_total": int(times.sum()),
                "function_self": int(self._self_times[same].sum()),
                "function_least": int(times.min()),
                "function_most": int(times.max()),
                "function_median": int(np.median(times)),
            }
        return self._known[symbol]

    def _callers(self, number: int) -> list[int]:
        """From the one that made the call outwards."""
        found: list[int] = []
        while (number := int(self._parent[number])) >= 0:
            found.append(number)
        return found

    def _named(self, number: int) -> Json:
        name, image, lane = self.symbols[int(self._symbol[number])]
        times = {"start": int(self._start[number]), "duration": int(self._duration[number])}
        times["self"] = int(self._self_times[number])
        state = str(_STATES[int(self._state[number])])
        return {"call": number, "function": name, "image": image, "lane": lane, "state": state, **times}

    def view(self, begin: int, end: int) -> Json:
        """The functions whose calls begin within a stretch of time, those with most time in themselves first."""
        begin, end = (max(-1, min(time, self._flow.stop_ns - self._flow.start_ns + 1)) for time in (begin, end))
        count, total = (np.zeros(len(self.symbols), np.int64) for _ in range(2))
        symbol, own = self._drawn
        for part in self._pyramid.within(begin + self._flow.start_ns, max(begin, end) + self._flow.start_ns):
            if part.start < part.stop:
                count += np.bincount(symbol[part], minlength=len(count))
                total += np.bincount(symbol[part], weights=own[part], minlength=len(total)).astype(np.int64)
        order = [int(each) for each in np.lexsort((-count, -total)) if count[each]]
        rows = [
            {"function": self.symbols[n][0], "image": self.symbols[n][1], "calls": int(count[n]), "self": int(total[n])}
            for n in order[:_MOST_FUNCTIONS]
        ]
        left_out = max(0, len(order) - _MOST_FUNCTIONS)
        return {"calls": int(count.sum()), "functions": rows, "left_out": left_out}

    def find(self, query: str, after: int, back: bool) -> Json:
        """The next call, in order of time, of a function that is searched for; -1 for none. ``after`` is a call, or -1
        for the beginning."""
        found = np.flatnonzero(self._matching(query)) if query else np.empty(0, np.int64)
        found = found[np.argsort(self._start[found], kind="stable")]
        if not len(found):
            return {"call": -1, "found": 0, "at": 0}
        own = np.flatnonzero(found == after)
        if len(own):
            at = int(own[0]) + (-1 if back else 1)
        else:
            when = int(self._start[after]) if 0 <= after < len(self._start) else -1
            at = int(np.searchsorted(self._start[found], when)) - int(back)
        at %= len(found)
        return {"call": int(found[at]), "found": len(found), "at": at + 1}
