# SPDX-License-Identifier: LGPL-2.1-or-later
"""Turns records into figures by function and drops them, so that a run of any length takes no more memory.

A call that is under way when its record is folded is kept, as the record of its entry, until it ends; each fold gets
the part of its time that falls into it. So figures of several folds add up to those of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import field, replace

import numpy as np
import pyarrow as pa

from gilk.trace import flow_build
from gilk.trace.about import About, Tally
from gilk.trace.flow import CallState, Flow
from gilk.trace.nesting import Bools, Ints
from gilk.trace.paths import Symbol
from gilk.trace.totals import by_function
from gilk.trace.traced import Omitted, TraceDescription
from gilk.values import dataclass

Thread = tuple[int, int]  # pid, tid
NamedPlace = tuple[str, str]  # function and image; '' where there is no name
_ENOUGH = 200_000  # the number of rows to fold at once: larger folds cost no less per row
_MOST_OPEN = 500_000  # the most calls under way that are kept


@dataclass(frozen=True, slots=True)
class FunctionFigures:
    """The figures of a function in a period. ``calls`` is the number of calls that began in it. Times are ns of it:
    ``total`` counts time in nested calls of the function itself once, ``own`` is without followed callees.
    """

    function: str
    image: str
    calls: int
    total: int
    own: int


@dataclass(frozen=True)
class TopPeriod:
    """The figures of functions from ``start_ns`` to ``stop_ns`` of the session's time line. ``dropped`` is the number
    of records that were lost; ``omitted`` are functions that are not followed from then on. ``seen`` is the number of
    times that a running thread was found in each function, followed or not, when threads were looked at. ``whole``:
    these are the figures of all periods together.
    """

    start_ns: int
    stop_ns: int
    functions: tuple[FunctionFigures, ...]
    threads: int
    dropped: int
    omitted: tuple[Omitted, ...]
    seen: Mapping[NamedPlace, int] = field(default_factory=dict)
    whole: bool = False


@dataclass
class Figures:
    """Figures by symbol, which grow, and the threads that made records."""

    by_symbol: dict[Symbol, list[int]] = field(default_factory=dict)  # calls, total, own
    threads: set[Thread] = field(default_factory=set)

    def add(self, symbol: Symbol, numbers: tuple[int, ...]) -> None:
        known = self.by_symbol.setdefault(symbol, [0, 0, 0])
        self.by_symbol[symbol] = [a + b for a, b in zip(known, numbers, strict=True)]

    def join(self, other: Figures) -> None:
        for symbol, numbers in other.by_symbol.items():
            self.add(symbol, tuple(numbers))
        self.threads |= other.threads

    def rows(self) -> tuple[FunctionFigures, ...]:
        return tuple(
            FunctionFigures(function, image, *numbers)
            for (function, image, _lane), numbers in self.by_symbol.items()
            if any(numbers)
        )


class Folding:
    """Folds tables of samples, which ``add`` takes; ``figures`` returns the figures since its last call.

    ``about`` describes all probes so far; ``omitted`` are functions that are not followed any more, whose calls under
    way end then. ``forgotten`` is the number of calls under way that were given up because there were too many.
    """

    def __init__(self, about: Callable[[], About], omitted: Callable[[], Iterable[Omitted]] = tuple) -> None:
        self._about, self._omitted = about, omitted
        self._open: pa.Table | None = None
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._figures = Figures()
        self.forgotten = 0
        self.since = 0  # in ns; all records until then are folded

    def add(self, table: pa.Table) -> None:
        """Take samples; those of a thread must come in the order in which it made them."""
        if table.num_rows:
            self._waiting.append(table)
            self._rows += table.num_rows
        if self._rows >= _ENOUGH:
            self.fold(0)

    def figures(self) -> Figures:
        found, self._figures = self._figures, Figures()
        return found

    def fold(self, until: int, ended: Callable[[Set[Thread]], Set[Thread]] = lambda _threads: frozenset()) -> None:
        """Fold the waiting samples, until ``until`` (ns) or the newest record, whichever is later. ``ended`` returns
        those of some threads that have ended; their calls under way end with their last records.
        """
        samples, carried = self._samples()
        if samples is None:
            self.since = max(self.since, until)
            return
        begin, end = self.since, max(self.since, until, int(samples["time"][-1].as_py()))
        description = TraceDescription(begin, end, omitted=tuple(self._omitted()))
        flow, rows = flow_build.build_with_rows(samples, self._about(), Tally(trace=description))
        gone = ended(flow.threads)
        flow = replace(flow, table=_clipped(flow, begin, end, _last_times(samples, gone)))
        self._count(flow, ~carried[rows])
        self._keep(samples, rows[flow.is_state(CallState.OPEN) & ~_of_threads(flow, gone)])
        self.since = end

    def _samples(self) -> tuple[pa.Table | None, Bools]:
        """The kept records and the waiting ones, in order of time, and a mask of the kept ones. None if there are no
        records.
        """
        kept = self._open.num_rows if self._open is not None else 0
        tables = ([self._open] if self._open is not None else []) + self._waiting
        self._waiting, self._rows = [], 0
        if not tables:
            return None, np.empty(0, np.bool_)
        table = pa.concat_tables(tables, promote_options="default").unify_dictionaries()
        order = np.argsort(np.asarray(table["time"]), kind="stable")
        return table.take(pa.array(order)).combine_chunks(), order < kept

    def _count(self, flow: Flow, fresh: Bools) -> None:
        """Add the flow to the figures. ``fresh``: a mask of the calls that were not under way before."""
        totals = by_function(flow, fresh & ~flow.is_state(CallState.BEFORE))
        columns = (totals.calls.tolist(), totals.total.tolist(), totals.own.tolist())
        for symbol, *numbers in zip(totals.symbols, *columns, strict=True):
            self._figures.add(symbol, tuple(numbers))
        self._figures.threads |= flow.threads

    def _keep(self, samples: pa.Table, under_way: Ints) -> None:
        """Keep the entries of calls ``under_way``, and the last gap of each of their threads, so that their ends will
        be judged as those in a trace are.
        """
        excess = max(0, len(under_way) - _MOST_OPEN)
        self.forgotten += excess
        kept = np.sort(under_way)[excess:]
        threads = _threads(samples)
        gaps = flow_build.gap_rows(samples)
        last = {int(threads[row]): row for row in gaps.tolist()}
        mine = [row for thread, row in last.items() if thread in set(threads[kept].tolist())]
        rows = np.sort(np.concatenate([kept, np.array(mine, np.int64)]))
        self._open = samples.take(pa.array(rows)) if len(rows) else None


def _clipped(flow: Flow, begin: int, end: int, last: dict[Thread, int]) -> pa.Table:
    """The calls, with the part of their time that is from ``begin`` to ``end``, or to the time ``last`` of their
    thread.
    """
    start = flow.column("start")
    stop = np.minimum(start + flow.column("duration"), end)
    for (pid, tid), time in last.items():
        mine = (flow.column("pid") == pid) & (flow.column("tid") == tid)
        stop[mine] = np.minimum(stop[mine], time)
    start = np.maximum(start, begin)
    table = flow.table
    for name, values in (("start", start), ("duration", np.maximum(stop - start, 0))):
        table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.int64()))
    return table


def _last_times(samples: pa.Table, threads: Set[Thread]) -> dict[Thread, int]:
    """The time of the last record of each of these threads."""
    keys, times = _threads(samples), np.asarray(samples["time"])
    return {(pid, tid): int(times[np.flatnonzero(keys == (pid << 32 | tid))[-1]]) for pid, tid in threads}


def _threads(samples: pa.Table) -> Ints:
    found: Ints = np.asarray(samples["pid"]).astype(np.int64) << 32 | np.asarray(samples["tid"]).view(np.uint32)
    return found


def _of_threads(flow: Flow, threads: Set[Thread]) -> Bools:
    keys = flow.column("pid").astype(np.int64) << 32 | flow.column("tid")
    return np.isin(keys, [pid << 32 | tid for pid, tid in threads])
