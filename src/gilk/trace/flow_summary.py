# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counts the calls of a trace by state without making them all: of most only the number is needed."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from gilk.trace import flow_build, long_flow
from gilk.trace.about import About, Tally
from gilk.trace.flow import CallState, Flow
from gilk.trace.part_reading import Unkept, Whole
from gilk.values import dataclass

_ROWS = 500_000  # the number of samples that are handled at once


@dataclass(frozen=True)
class FlowSummary:
    """The number of calls in each state, and the number of threads that called anything."""

    states: dict[str, int]
    threads: int


def summary(
    samples: pa.Table, about: About, tally: Tally, progress: Callable[[int], None] = lambda _done: None,
    rows: int = _ROWS,
) -> FlowSummary:  # fmt: skip
    """The summary of a table of samples that is in order of time: that of its flow, in a quarter of the time.
    ``progress`` is given the number of samples handled so far, after each ``rows`` of them.
    """
    try:
        return _of_parts(samples, about, tally, progress, rows)
    except Whole:
        return _of_flow(flow_build.build(samples, about, tally))


def _of_flow(flow: Flow) -> FlowSummary:
    return FlowSummary(flow.states, len(flow.threads))


def _of_parts(
    samples: pa.Table, about: About, tally: Tally, progress: Callable[[int], None], rows: int
) -> FlowSummary:  # fmt: skip
    """Raises Whole."""
    columns = samples.select(list(long_flow.COLUMNS))
    parts = (columns.slice(at, rows) for at in range(0, columns.num_rows, rows))
    with long_flow.reading(parts, about, tally, progress, Unkept()) as found:
        flow, plain = found.checked(), found.plain
    states = dict.fromkeys(map(str, CallState), 0) | flow.states
    return FlowSummary(states | {str(CallState.WHOLE): states[CallState.WHOLE] + plain}, len(flow.threads))
