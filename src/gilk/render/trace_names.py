# SPDX-License-Identifier: LGPL-2.1-or-later
"""Gives functions in a file of samples the names that they have in their source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from gilk.render.names import learn, readable, readable_in
from gilk.trace.about import Tally
from gilk.trace.calls import CallTable
from gilk.trace.flow import Flow
from gilk.trace.reading import Trace

_COLUMNS = ("function", "point")


def with_readable_names(trace: Trace) -> Trace:
    """The trace in the form to be shown: calls are paired by the names that were recorded, and only then renamed."""
    learn(probe.function for probe in trace.about.probes)
    if all(readable(probe.function) == probe.function for probe in trace.about.probes):
        return trace
    probes = [replace(one, function=readable(one.function), point=readable_in(one.point)) for one in trace.about.probes]
    about, samples = replace(trace.about, probes=tuple(probes)), _renamed(trace.samples)
    shown = _ShownTrace(trace.path, about, _tally(trace.tally), samples, trace.part_of, trace.threads)
    shown.__dict__["recorded"] = trace
    return shown


class _ShownTrace(Trace):
    """A trace with readable names. ``recorded`` is the same trace with the linker's names."""

    recorded: Trace

    @cached_property
    def calls(self) -> CallTable:
        return replace(self.recorded.calls, table=_renamed(self.recorded.calls.table))

    @cached_property
    def flow(self) -> Flow:
        flow = self.recorded.flow
        left = [_called(rows) for rows in (flow.omitted, flow.unfollowed, flow.unended)]
        return replace(flow, table=_renamed(flow.table), omitted=left[0], unfollowed=left[1], unended=left[2])


def _tally(tally: Tally) -> Tally:
    counts: dict[str, int] = {}
    for point, number in tally.counts.items():
        name = readable_in(point)
        counts[name] = counts.get(name, 0) + number
    refused = {readable_in(point): reason for point, reason in tally.refused.items()}
    return replace(tally, counts=counts, refused=refused)


def _called(rows: Iterable[Any]) -> tuple[Any, ...]:
    """The descriptions of functions, with readable names for them and their callers."""
    return tuple(replace(row, function=readable(row.function), **_callers(row)) for row in rows)


def _callers(row: Any) -> dict[str, tuple[str, ...]]:
    return {"callers": tuple(map(readable, row.callers))} if hasattr(row, "callers") else {}


def _renamed(table: pa.Table) -> pa.Table:
    """The table with readable names; names that become the same get one code."""
    table = table.unify_dictionaries()
    for name in _COLUMNS:
        if name in table.column_names and table.num_rows:
            column = table[name].combine_chunks()
            names = [readable_in(each) for each in column.dictionary.to_pylist()]
            distinct = {each: number for number, each in enumerate(dict.fromkeys(names))}
            numbers = pa.array([distinct[each] for each in names], pa.int32()).take(column.indices)
            made = pa.DictionaryArray.from_arrays(numbers, pa.array(list(distinct), pa.string()))
            table = table.set_column(table.column_names.index(name), name, made)
    return table
