# SPDX-License-Identifier: LGPL-2.1-or-later
"""The events to plot: taken from a file of samples, each with a time, a number, and its series."""

from __future__ import annotations

import fnmatch
from collections import Counter
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gilk.errors import UsageError
from gilk.trace.probes import RecordKind
from gilk.trace.query import ask, tables
from gilk.trace.reading import Trace
from gilk.trace.series import ordinals
from gilk.values import dataclass

#: The kinds of samples that are not the beginning of an event.
_NO_ARRIVAL = [str(RecordKind.RETURN), str(RecordKind.GAP), str(RecordKind.PROGRAM)]
_SERIES = ("series", "function", "thread", "pid")  # columns of an answer that may name series


Named = tuple[NDArray[np.int64], list[str]]  # codes, and the names that they index into


class By(StrEnum):
    """The property by which samples are grouped into series."""

    PROCESS = "process"
    THREAD = "thread"
    FUNCTION = "function"
    POINT = "point"
    ALL = "all"


class Values(StrEnum):
    """The number of each event that is plotted."""

    DURATION = "duration"
    INTERVAL = "interval"
    VALUE = "value"
    NUMBER = "number"


@dataclass(frozen=True, eq=False)
class PlotEvents:
    """Events in order of time. ``codes`` index into ``names``, those of the series; ``values`` are numbers of ``kind``.
    Durations and intervals are in ns. ``points`` are those of samples, None if there are none.
    """

    times: NDArray[np.int64]
    codes: NDArray[np.int64]
    names: tuple[str, ...]
    values: NDArray[np.float64]
    kind: Values
    points: Named | None = None

    def of(self, code: int) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = self.codes == code
        return mask


def events(trace: Trace, of: tuple[str, ...], by: By, values: Values | None) -> PlotEvents:
    """The events at points or in functions that match a glob of ``of``; calls, if they are timed and ``values`` allows
    it.

    ``values`` None: durations if there are any, else logged values if there are any, else numbers. Raises UsageError
    `nothing-to-plot`.
    """
    functions = _matching(trace, of)
    calls = _where(trace.calls.table, "function", functions)
    if calls.num_rows and values in (None, Values.DURATION):
        return _made(trace, calls.rename_columns(_renamed(calls)), "duration", Values.DURATION, by)
    if values is Values.DURATION:
        raise UsageError("nothing-to-plot", "there are no timed calls", "the instrument `time` records durations")
    samples = _where(trace.samples, "point", _points(trace, of)) if of else trace.samples
    samples = samples.filter(pc.invert(pc.is_in(samples["kind"].cast(pa.string()), pa.array(_NO_ARRIVAL))))
    if not samples.num_rows:
        hint = f"it has samples of {_some(trace)}" if trace.samples.num_rows else "its probes have recorded nothing"
        raise UsageError("nothing-to-plot", f"no sample in {trace.path} matches", hint)
    logged = samples["value"].null_count < samples.num_rows
    if values is Values.VALUE or (values is None and logged):
        if not logged:
            raise UsageError("nothing-to-plot", "no sample has a value", "a C instrument logs values")
        return _made(trace, samples.filter(pc.is_valid(samples["value"])), "value", Values.VALUE, by)
    return _made(trace, samples, "", Values.NUMBER, by)


def answer(trace: Trace, sql: str) -> PlotEvents:
    """The answer to a query: its column `time`, in ns, and if it has them `duration`, `value` or `y`, and `series`.

    Raises UsageError `bad-query`, `nothing-to-plot`.
    """
    table = ask(tables(trace), sql)
    table = table.rename_columns(_renamed(table)) if "time" not in table.column_names else table
    names = table.column_names
    if "time" not in names or not pa.types.is_integer(table["time"].type):
        hint = "for example: SELECT time, value AS y FROM samples"
        raise UsageError("nothing-to-plot", "the answer has no column `time` of whole nanoseconds", hint)
    if not table.num_rows:
        raise UsageError("nothing-to-plot", "the answer has no rows")
    kinds = {"duration": Values.DURATION, "value": Values.VALUE, "y": Values.VALUE}
    column = next((name for name in kinds if name in names), "")
    series = next((name for name in _SERIES if name in names), "")
    order = np.argsort(np.asarray(table["time"].cast(pa.int64())), kind="stable")
    table = table.take(pa.array(order))
    labels = _coded(table[series]) if series else (np.zeros(table.num_rows, np.int64), ["the answer"])
    return _with_series(table, column, kinds.get(column, Values.NUMBER), labels)


def began(trace: Trace) -> int:
    """The time at which the targets of an experiment were released, in ns as in `time`; 0 for a plain run."""
    told = trace.tally.report.get("experiment")
    moment = told.get("began") if isinstance(told, dict) else None
    return moment if isinstance(moment, int) else 0


def _made(trace: Trace, table: pa.Table, column: str, kind: Values, by: By) -> PlotEvents:
    return _with_series(table, column, kind, _labels(trace, table, by))


def _with_series(table: pa.Table, column: str, kind: Values, labels: Named) -> PlotEvents:
    """The events, with series in the order of their number of events, most first."""
    found, names = labels
    order = np.argsort(-np.bincount(found, minlength=len(names)), kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    codes = rank[found]
    times = np.asarray(table["time"].cast(pa.int64()))
    points = _coded(table["point"]) if "point" in table.column_names else None
    numbers = np.asarray(table[column].cast(pa.float64())) if column else ordinals(codes).astype(np.float64)
    return PlotEvents(times, codes, tuple(names[n] for n in order.tolist()), numbers, kind, points)


def _labels(trace: Trace, table: pa.Table, by: By) -> Named:
    if by is By.ALL:
        return np.zeros(table.num_rows, np.int64), ["all"]
    if by is By.PROCESS:
        names = process_names(trace.samples)
        pids, codes = np.unique(np.asarray(table["pid"]), return_inverse=True)
        return codes.astype(np.int64), [names[pid] for pid in pids.tolist()]
    if by is By.THREAD:
        tids, first, codes = np.unique(np.asarray(table["tid"]), return_index=True, return_inverse=True)
        threads = table["thread"].take(pa.array(first)).to_pylist()
        return codes.astype(np.int64), [f"{name} {tid}" for name, tid in zip(threads, tids.tolist(), strict=True)]
    return _coded(table["function" if by is By.POINT and "point" not in table.column_names else str(by)])


def _coded(column: pa.ChunkedArray) -> Named:
    """The codes of the rows, and the names that they stand for; null becomes the name "?"."""
    array = column.cast(pa.string()).fill_null("?").combine_chunks().dictionary_encode()
    return np.asarray(array.indices.cast(pa.int64())), array.dictionary.to_pylist()


def process_names(table: pa.Table) -> dict[int, str]:
    """The name of each process by pid: that of its main thread, or else of any; with the pid if two would be alike."""
    grouped = table.group_by(["pid", "tid", "thread"]).aggregate([])
    rows = sorted(grouped.to_pylist(), key=lambda row: (row["pid"] != row["tid"], row["tid"]))
    names: dict[int, str] = {}
    for row in rows:
        names.setdefault(row["pid"], row["thread"] or "?")
    often = Counter(names.values())
    return {pid: f"{name} {pid}" if often[name] > 1 else name for pid, name in names.items()}


def _points(trace: Trace, of: tuple[str, ...]) -> set[str]:
    """The points whose names, or whose functions' names, match a glob."""
    chosen = set()
    for probe in trace.about.probes:
        names = (probe.point, probe.function, _whole(probe.point))
        if any(fnmatch.fnmatchcase(name, glob) for glob in of for name in names):
            chosen.add(probe.point)
    return chosen


def _whole(point: str) -> str:
    """The name of a point without the last part: libc.so.6:read for libc.so.6:read:entry."""
    return point.rpartition(":")[0]


def _matching(trace: Trace, of: tuple[str, ...]) -> set[str]:
    chosen = _points(trace, of) if of else {probe.point for probe in trace.about.probes}
    return {probe.function for probe in trace.about.probes if probe.point in chosen}


def _where(table: pa.Table, column: str, names: set[str]) -> pa.Table:
    return table.filter(pc.is_in(table[column].cast(pa.string()), pa.array(sorted(names), pa.string())))


def _renamed(table: pa.Table) -> list[str]:
    return ["time" if name == "start" else name for name in table.column_names]


def _some(trace: Trace) -> str:
    names: list[Any] = pc.unique(trace.samples["point"].cast(pa.string())).to_pylist()
    return ", ".join(str(name) for name in names[:3]) + (", ..." if len(names) > 3 else "")
