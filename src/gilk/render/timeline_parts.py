# SPDX-License-Identifier: LGPL-2.1-or-later
"""The parts of a time line that are requested one by one, for a trace that is too large to be drawn as a whole.

All times are in ns since the trace's start. A call is named by its number in the trace's flow.
"""

from __future__ import annotations

import base64
from functools import cached_property
from typing import Any, Final

import numpy as np

from gilk.errors import UsageError
from gilk.render.flow_tree import Missing
from gilk.trace.call_index import PART, CallIndex
from gilk.trace.flow import STATES
from gilk.trace.nesting import Bools, Ints
from gilk.trace.pyramid import TimePyramid

Json = dict[str, Any]
PIXELS: Final = 512  # the width of a tile in pixels
ROWS: Final = 32  # the height of a tile in rows
_MOST_SEARCHES: Final = 4  # the most searches whose pyramids are kept
_MOST_CHILDREN: Final = 50
_MOST_FUNCTIONS: Final = 25
_WIDEST: Final = 1 << 40  # the most ns of a pixel


class TimelineParts:
    """The parts of one trace. ``head``: everything about the trace besides its calls. ``missing``: as missing_below()
    of flow_tree.py returns it. ``lacking``: lines about all functions that are not followed.
    """

    def __init__(self, index: CallIndex, head: Json, missing: Missing | None = None, lacking: str = "") -> None:
        self.index, self.symbols = index, index.symbols
        self.missing, self.lacking = missing or {}, lacking
        rows, first = [], 0
        for track, shown in zip(index.tracks, head["tracks"], strict=True):
            rows.append({**shown, "rows": track.rows, "first": first})
            first += track.rows
        self.head = {**head, "tracks": rows, "rows": first, "states": [str(state) for state in STATES]}
        self._searches: dict[str, TimePyramid] = {}
        self._found: dict[str, tuple[Ints, Ints]] = {}
        self._known: dict[int, Json] = {}  # the figures of functions, by symbol

    @cached_property
    def _gap_times(self) -> Ints:
        return np.unique(np.array([at for _, _, at in self.index.gaps], np.int64))

    def tile(self, zoom: int, number: int, chunk: int, query: str) -> Json:
        """Tile `number` among those whose pixels are 2 ** zoom ns wide, with the rows from ROWS * chunk on; ``query``:
        only calls of functions whose names contain it. Raises UsageError `bad-range`.

        ``data`` is base64 of, for each of ``calls``: start and duration (64-bit floats), number, count in its pixel,
        symbol (32-bit), row and state (a byte each): one column after the other, little-endian.
        """
        width = 1 << zoom if 0 <= zoom < 64 else _WIDEST + 1
        if width > _WIDEST or not 0 <= number < 1 << 40 or not 0 <= chunk < 1 << 20:
            raise UsageError("bad-range", "there is no such part of a time line")
        begin = self.index.start_ns + number * width * PIXELS
        if not -(1 << 62) < begin < 1 << 62:
            raise UsageError("bad-range", "there is no such part of a time line")
        rows = range(chunk * ROWS, min((chunk + 1) * ROWS, self.index.pyramid.rows))
        found = self._of(query).tile(begin, PIXELS, width, rows)
        known = self.index.columns
        at = known["place"][found.call]
        columns = (
            (found.start - self.index.start_ns).astype("<f8"), found.duration.astype("<f8"), found.call.astype("<u4"),
            found.count.astype("<u4"), known["symbol"][at].astype("<u4"), (found.row - rows.start).astype("u1"),
            known["state"][at],
        )  # fmt: skip
        data = base64.b64encode(b"".join(column.tobytes() for column in columns)).decode()
        return {"calls": len(found.call), "data": data, "gaps": self._gaps(begin, PIXELS * width, width)}

    def _gaps(self, begin: int, length: int, width: int) -> list[int]:
        """The times at which records were dropped, at most one for each pixel."""
        first, last = np.searchsorted(self._gap_times, [begin, begin + length])
        times = self._gap_times[first:last]
        chosen = np.unique((times - begin) // width, return_index=True)[1]
        found: list[int] = (times[chosen] - self.index.start_ns).tolist()
        return found

    def _of(self, query: str) -> TimePyramid:
        if not query:
            return self.index.pyramid
        if query not in self._searches:
            while len(self._searches) >= _MOST_SEARCHES:
                del self._searches[next(iter(self._searches))]
            self._searches[query] = self.index.pyramid.at(self._matching(query))
        return self._searches[query]

    def _matching(self, query: str) -> Ints:
        """The places of the calls of functions whose names contain ``query``."""
        words = query.casefold()
        return self._places(np.array([words in name.casefold() for name, _, _ in self.symbols] or [False]))

    def _places(self, wanted: Bools) -> Ints:
        """The places of the calls of the symbols ``wanted``, a mask."""
        symbol = self.index.columns["symbol"]
        parts = (range(first, min(first + PART, len(symbol))) for first in range(0, len(symbol), PART))
        found = [np.flatnonzero(wanted[symbol[part.start : part.stop]]) + part.start for part in parts]
        return np.concatenate([np.empty(0, np.int64), *found])

    def call(self, number: int) -> Json:
        """A call, its callers, its callees, and the figures of its function. Raises UsageError `no-such-call`."""
        index = self.index
        if not 0 <= number < index.calls:
            raise UsageError("no-such-call", f"the trace has no call {number}")
        place = int(index.columns["place"][number])
        row, made = index.row(place), index.inside(place)
        longest = made.start + np.argsort(-index.columns["duration"][made], kind="stable")[:_MOST_CHILDREN]
        before = int(index.columns["call"][place - 1]) if place > index.first[row] else -1
        after = int(index.columns["call"][place + 1]) if place + 1 < index.first[row + 1] else -1
        return {
            **self._named(place),
            "row": row,
            "before": before,
            "after": after,
            "callers": [self._named(each) for each in self._callers(place)],
            "children": [self._named(int(each)) for each in longest],
            "made": made.stop - made.start,
            **self._figures(int(index.columns["symbol"][place])),
        }

    def _figures(self, symbol: int) -> Json:
        """The figures of all calls of a function."""
        if symbol not in self._known:
            wanted = np.arange(len(self.symbols)) == symbol
            same = self._places(wanted)
            times = self.index.columns["duration"][same]
            self._known[symbol] = {
                "function_calls": len(same),
                "function_total": int(times.sum()),
                "function_self": int(self.index.columns["self"][same].sum()),
                "function_least": int(times.min()),
                "function_most": int(times.max()),
                "function_median": int(np.median(times)),
            }
        return self._known[symbol]

    def _callers(self, place: int) -> list[int]:
        """The places of the callers of a call, from the nearest outwards."""
        found: list[int] = []
        while (place := self.index.around(place)) >= 0:
            found.append(place)
        return found

    def _named(self, place: int) -> Json:
        columns = self.index.columns
        name, image, lane = self.symbols[int(columns["symbol"][place])]
        call, start, duration, own = (int(columns[each][place]) for each in ("call", "start", "duration", "self"))
        times = {"start": start - self.index.start_ns, "duration": duration, "self": own}
        state = str(STATES[int(columns["state"][place])])
        return {"call": call, "function": name, "image": image, "lane": lane, "state": state, **times}

    def view(self, begin: int, end: int) -> Json:
        """The functions whose calls begin from ``begin`` to ``end``, those with the most time in themselves first."""
        index = self.index
        begin, end = (max(-1, min(time, index.stop_ns - index.start_ns + 1)) for time in (begin, end))
        within = index.pyramid.within(begin + index.start_ns, max(begin, end) + index.start_ns)
        count, total = index.figures(within)
        order = [int(each) for each in np.lexsort((-count, -total)) if count[each]]
        rows = [
            {"function": self.symbols[n][0], "image": self.symbols[n][1], "calls": int(count[n]), "self": int(total[n])}
            for n in order[:_MOST_FUNCTIONS]
        ]
        left_out = max(0, len(order) - _MOST_FUNCTIONS)
        return {"calls": int(count.sum()), "functions": rows, "left_out": left_out}

    def find(self, query: str, after: int, back: bool) -> Json:
        """The next call, in order of time, of a function whose name contains ``query``; -1 if there is none. ``after``
        is a call, or -1 for the beginning; ``back``: the call before instead.
        """
        found, starts = self._in_order(query) if query else (np.empty(0, np.int64),) * 2
        if not len(found):
            return {"call": -1, "found": 0, "at": 0}
        columns = self.index.columns
        when = int(columns["start"][columns["place"][after]]) if 0 <= after < self.index.calls else -(1 << 62)
        first, last = (int(each) for each in np.searchsorted(starts, [when, when + 1]))
        own = np.flatnonzero(found[first:last] == after)
        at = first + int(own[0]) + (-1 if back else 1) if len(own) else first - int(back)
        at %= len(found)
        return {"call": int(found[at]), "found": len(found), "at": at + 1}

    def _in_order(self, query: str) -> tuple[Ints, Ints]:
        """The calls of functions whose names contain ``query``, in order of time, and their starts."""
        if query not in self._found:
            places, columns = self._matching(query), self.index.columns
            calls, starts = columns["call"][places], columns["start"][places]
            order = np.lexsort((calls, starts))
            self._found = {query: (calls[order], starts[order])}
        return self._found[query]
