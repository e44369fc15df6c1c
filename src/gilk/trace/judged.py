# SPDX-License-Identifier: LGPL-2.1-or-later
"""The calls of a trace as columns by number, in which anomalies are looked for: of a flow, or of an index, which takes
a tenth of the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gilk.trace.call_index import CallIndex, around
from gilk.trace.flow import STATES, CallState, Flow
from gilk.trace.nesting import Ints
from gilk.trace.paths import Paths, of_columns, of_flow
from gilk.values import dataclass

Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class JudgedCalls:
    """The calls. A call has a lower number than those that it makes. ``parent`` is the caller, -1 for none; ``state`` a
    number in `flow.STATES`; ``start_ns`` the trace's start. ``described`` returns the members of a row of Flow.table
    that are about a call: function, image, lane, start, duration, pid, tid, thread, state.
    """

    start_ns: int
    duration: Ints
    parent: Ints
    depth: Ints
    state: Ints
    paths: Paths
    described: Callable[[int], Json]


def judged_flow(flow: Flow) -> JudgedCalls:
    names = [STATES.index(CallState(name)) for name in flow.names("state")] if flow.table.num_rows else []
    state = np.array(names, np.int64)[flow.column("state")] if names else np.empty(0, np.int64)
    duration, parent, depth = (flow.column(name) for name in ("duration", "parent", "depth"))

    def described(number: int) -> Json:
        return dict(flow.table.slice(number, 1).to_pylist()[0])

    return JudgedCalls(flow.start_ns, duration, parent, depth, state, of_flow(flow), described)


def judged_index(index: CallIndex) -> JudgedCalls:
    columns, tops = index.columns, index.first_rows
    place = columns["place"]
    depth, parent = np.empty(index.calls, np.int64), np.full(index.calls, -1, np.int64)
    for row in range(len(index.first) - 1):
        places = slice(int(index.first[row]), int(index.first[row + 1]))
        top = int(tops[np.searchsorted(tops, row, side="right") - 1])
        depth[places] = row - top
        if row > top:
            above = slice(int(index.first[row - 1]), places.start)
            for begin, outer in around(columns, above, places):
                parent[begin : begin + len(outer)] = columns["call"][above.start + outer]
    duration, depth, parent = columns["duration"][place], depth[place], parent[place]
    symbol = columns["symbol"][place].astype(np.int64)
    paths = of_columns(symbol, index.symbols, depth, parent, duration, columns["self"][place])
    described = _Described(index, np.cumsum([track.calls for track in index.tracks]))
    return JudgedCalls(index.start_ns, duration, parent, depth, columns["state"][place], paths, described)


@dataclass(frozen=True, eq=False)
class _Described:
    """Describes calls of an index. ``ends``: by track, the number behind those of its calls."""

    index: CallIndex
    ends: Ints

    def __call__(self, call: int) -> Json:
        columns = self.index.columns
        place = int(columns["place"][call])
        function, image, lane = self.index.symbols[int(columns["symbol"][place])]
        track = self.index.tracks[int(np.searchsorted(self.ends, call, side="right"))]
        times = {name: int(columns[name][place]) for name in ("start", "duration")}
        state = str(STATES[int(columns["state"][place])])
        who = {"pid": track.pid, "tid": track.tid, "thread": track.thread}
        return {"function": function, "image": image, "lane": lane, "state": state, **times, **who}
