# SPDX-License-Identifier: LGPL-2.1-or-later
"""Growing histograms equal those of all records together, wherever the records are cut into parts."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from gilk.trace.calls import pair
from gilk.trace.latencies import OCTAVES, Latencies
from gilk.trace.samples import schema


def samples(seed: int, records: int) -> pa.Table:
    """Calls of three functions in two threads, of times of all sizes; now and then records were dropped."""
    chance, rows = random.Random(seed), []
    for tid in (1, 2):
        now, stack = 0, list[tuple[str, int]]()
        for _ in range(records):
            now += int(2 ** chance.uniform(0, 30))
            row = {"time": now, "pid": 1, "tid": tid, "value": 0}
            if chance.random() < 0.02:
                rows.append({**row, "kind": "gap", "sp": 5})
            elif stack and chance.random() < 0.5:
                name, sp = stack.pop()
                rows.append({**row, "function": name, "kind": "time-return", "sp": sp})
            else:
                stack.append((chance.choice("fgh"), 100_000 * tid - 8 * len(stack)))
                rows.append({**row, "function": stack[-1][0], "kind": "time-entry", "sp": stack[-1][1]})
    return pa.Table.from_pylist(sorted(rows, key=lambda row: row["time"]), schema(frozenset()))


@pytest.mark.parametrize("parts", [1, 7, 400])
def test_parts_add_up_to_the_whole(parts: int) -> None:
    table = samples(parts, 1000)
    grown = Latencies()
    for part in range(parts):
        low, high = (table.num_rows * n // parts for n in (part, part + 1))
        grown.add(table.slice(low, high - low))
    whole = pair(table).table
    assert whole.num_rows > 300
    for name in "fgh":
        times = np.array([row["duration"] for row in whole.to_pylist() if row["function"] == name])
        by_bits = [sum(int(time).bit_length() == bits for time in times) for bits in range(OCTAVES)]
        assert grown.octaves(name) == by_bits
        assert grown.total[name] == times.sum()


def test_percentiles_are_right_to_within_a_sixteenth() -> None:
    table = samples(3, 2000)
    grown = Latencies()
    grown.add(table)
    times = np.sort(np.array([row["duration"] for row in pair(table).table.to_pylist() if row["function"] == "f"]))
    for percent in (1, 50, 90, 99, 100):
        exact = int(times[-(-percent * len(times) // 100) - 1])
        assert exact <= grown.about("f", percent) <= exact + exact // 16 + 1


def test_only_calls_under_way_are_kept() -> None:
    grown = Latencies()
    table = samples(5, 1000)
    for at in range(0, table.num_rows, 10):
        grown.add(table.slice(at, 10))
    entered = sum(kind == "time-entry" for kind in table["kind"].to_pylist())
    assert grown._open is not None and grown._open.num_rows < entered // 4


def test_a_return_after_a_pause_belongs_to_no_entry_before_it() -> None:
    """The call of the entry has ended meanwhile, and another one, at the same place of the stack, is under way."""
    row = {"pid": 1, "tid": 1, "sp": 8, "value": 0, "function": "f"}
    entry, end = (
        {**row, "time": time, "kind": f"time-{kind}"} for time, kind in ((10, "entry"), (9_000_000, "return"))
    )
    for forgets in (False, True):
        grown = Latencies()
        grown.add(pa.Table.from_pylist([entry], schema(frozenset())))
        if forgets:
            grown.forget_open()
        grown.add(pa.Table.from_pylist([end], schema(frozenset())))
        assert list(grown.calls) == ([] if forgets else ["f"])
