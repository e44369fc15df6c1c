# SPDX-License-Identifier: LGPL-2.1-or-later
"""A trace at every scale: each pixel has what a look at every call would find there, in random traces and scales."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gilk.trace import flow_build
from gilk.trace.about import Tally
from gilk.trace.flow import Flow
from gilk.trace.pyramid import TimePyramid, heights, pyramid
from tests.trace.machine import about, run


def made(seed: int) -> Flow:
    samples = run(seed, 2000, threads=3, kernel=seed % 2 == 1).samples()
    return flow_build.build(samples, about(), Tally())


def rows_of(flow: Flow) -> list[int]:
    """The row of each call; the rows of a track lie below those of the track before."""
    found, first = [], 0
    for track in flow.tracks:
        depths = flow.column("depth")[track.start : track.stop].tolist()
        found += [first + depth for depth in depths]
        first += max(depths) + 1
    return found


def looked_at(flow: Flow, begin: int, pixels: int, width: int, rows: range, wanted: set[int]) -> set[tuple[int, ...]]:
    """The same by looking at every call."""
    starts, durations = flow.column("start").tolist(), flow.column("duration").tolist()
    found: dict[tuple[int, int], list[int]] = {}
    before: dict[int, int] = {}
    for call, row in enumerate(rows_of(flow)):
        if row not in rows or call not in wanted:
            continue
        if starts[call] >= begin:
            pixel = (starts[call] - begin) // width
            if pixel < pixels:
                found.setdefault((row, pixel), []).append(call)
        elif starts[call] + durations[call] > begin and starts[call] >= starts[before.get(row, call)]:
            before[row] = call
    longest = {
        (row, min(calls, key=lambda call: (-durations[call], starts[call])), len(calls))
        for (row, _), calls in found.items()
    }
    return longest | {(row, call, 0) for row, call in before.items()}


def shown(found: TimePyramid, begin: int, pixels: int, width: int, rows: range) -> set[tuple[int, ...]]:
    tile = found.tile(begin, pixels, width, rows)
    return set(zip(tile.row.tolist(), tile.call.tolist(), tile.count.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_a_pixel_has_the_longest_call_and_the_number_of_calls(seed: int) -> None:
    flow = made(seed)
    found, chance = pyramid(flow), random.Random(seed)
    calls = set(range(flow.table.num_rows))
    starts, durations = flow.column("start").tolist(), flow.column("duration").tolist()
    same = {(row, starts[call], durations[call]) for call, row in enumerate(rows_of(flow))}
    assert len(same) == len(calls), "no two calls are alike, so the longest is one"
    span = max(flow.stop_ns - flow.start_ns, 1)
    for _ in range(20):
        width = max(1, span // chance.choice((1, 7, 64, 512, 5000, span)))
        begin = flow.start_ns + chance.randrange(-width, span)
        rows = range(chance.randrange(3), sum(heights(flow)) + 2)
        mine = looked_at(flow, begin, 64, width, rows, calls)
        theirs = shown(found, begin, 64, width, rows)
        assert {(row, durations[call], count) for row, call, count in theirs} == {
            (row, durations[call], count) for row, call, count in mine
        }
    chosen = {call for call in calls if chance.random() < 0.05}
    few = found.at(np.flatnonzero([call in chosen for call in found.call.tolist()]))
    whole = (flow.start_ns, 64, span // 64 + 1, range(sum(heights(flow))))
    assert {(row, count) for row, _, count in shown(few, *whole)} == {
        (row, count) for row, _, count in looked_at(flow, *whole, chosen)
    }
    assert {call for _, call, _ in shown(few, *whole)} <= chosen


def test_a_trace_without_calls_has_no_rows() -> None:
    flow = flow_build.build(run(0, 0).samples(), about(), Tally())
    found = pyramid(flow)
    assert (found.rows, shown(found, 0, 8, 8, range(4))) == (0, set())
