# SPDX-License-Identifier: LGPL-2.1-or-later
"""Records that are dropped after a trace's last event do not count as dropped by the trace."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from gilk.engines.follow.after import After
from gilk.trace.clock import Clock
from gilk.trace.drain import Chunk, Identity
from gilk.trace.layout import RECORDS
from gilk.trace.samples import Samples
from tests.behaviour.harness import run_gilk
from tests.programs.build import compile_text

STOP = 500
#: One call, with which the trace ends, and then more calls by several threads than can be stored.
SOURCE = r"""
#include <pthread.h>
#include <stdio.h>
__attribute__((noipa)) long hot(long n) { return n + 1; }
__attribute__((noipa)) long last(long n) { volatile long a = n * 7 + 3; return a * a + n; }
static void *calls(void *none)
{
	long sum = 0;
	for (long n = 0; n < 3000000; n++)
		sum += hot(n);
	return none;
}
int main(void)
{
	pthread_t threads[2];
	long sum = 0;
	for (long n = 0; n < 100; n++)
		sum += hot(n);
	printf("%ld\n", last(sum));
	for (int n = 0; n < 2; n++)
		pthread_create(&threads[n], 0, calls, 0);
	for (int n = 0; n < 2; n++)
		pthread_join(threads[n], 0);
	return 0;
}
"""


def table(rows: list[tuple[int, int, str, int]]) -> pa.Table:
    """A table of records with the columns (time, tid, kind, sp) from ``rows``."""
    columns = list(zip(*sorted(rows), strict=True))
    pid = pa.array([1] * len(rows), pa.int32())
    kind = pa.array(columns[2]).dictionary_encode()
    return pa.table(
        {"time": columns[0], "pid": pid, "tid": pa.array(columns[1], pa.int32()), "kind": kind,
         "sp": pa.array(columns[3], pa.uint32())}
    )  # fmt: skip


def test_drops_surely_after_the_stop_are_distinguished_from_those_of_the_trace() -> None:
    """The drops are planted at random; the oracle knows each thread's records, one by one."""
    draw = random.Random(3)
    for _ in range(50):
        rows: list[tuple[int, int, str, int]] = []
        expected, tails = 0, Counter[tuple[int, int]]()
        for tid in (10, 11, 12):
            seen = False  # whether there was a record after the stop
            time = draw.randrange(400)
            for _ in range(draw.randrange(12)):
                time += draw.randrange(1, 90)
                if draw.random() < 0.4:
                    missing = draw.randrange(1, 1 << 30)
                    rows.append((time, tid, "gap", missing))
                    expected += missing if seen and time > STOP else 0
                    time += 1
                rows.append((time, tid, "time-entry", 64))
                seen = seen or time > STOP
            tails[1, tid] = draw.randrange(100)
            expected += tails[1, tid] if seen else 0
        if not rows:
            continue
        whole, after = table(rows), After()
        times = whole["time"].to_numpy()
        middle = draw.randrange(len(rows) + 1)
        for part in (slice(0, middle), slice(middle, None)):  # in several tables, as records come
            after.look(whole.take(pa.array(np.arange(len(rows))[part])), times[part] > STOP)
        assert after.dropped(tails.items()) == expected


def test_a_gap_says_how_many_records_are_missing() -> None:
    records = np.zeros(3, RECORDS[0])
    records["tsc"], records["iid"] = (100, 200, 300), 7
    samples = Samples([], Clock(0, 0, 1.0), 0, {0})
    samples.add([Chunk(Identity(1, 2, 3), 0, records, (1, 2), (5, 1 << 40))])
    rows = [row for row in samples.flush().to_pylist() if row["kind"] == "gap"]
    assert [row["sp"] for row in rows] == [5, (1 << 32) - 1]


def test_records_after_the_stop_are_no_drops_of_the_trace(tmp_path: Path) -> None:
    program = compile_text(tmp_path, "hurried", SOURCE, "-O1", "-falign-functions=32")
    file = tmp_path / "t.parquet"
    done = run_gilk("trace", "--all", "--json", "--stop", "return:last", "-o", file, "--", program)
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["drops"] == 0
    assert report["trace"]["calls"] >= 102
    shown = run_gilk("show", file).stdout
    assert "dropped" not in shown
