# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tables of ``stddev`` and ``quantize``: what is added to them, beside what Python's statistics and numpy's histograms
make of the same numbers."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gilk
from gilk.render.woven import summary_json, summary_text
from gilk.render.woven_tables import key_of, value_of
from tests.behaviour.advised import aspects, build, rounds

NUMBERS = (0, 1, -1, 2, 3, 4, 1000, -1000, 1023, 1024, 2**40, -(2**40), 2**62, -(2**62), -(2**63), 2**63 - 1)
NEAR = (-8, 2, 4, 4, 4, 5, 5, 7, 9, 68)  # the mean is 10
PROGRAM = """
#include <pthread.h>
static const long numbers[] = { %s }, near[] = { %s };
NOINLINE void far_away(long n) { __asm__ volatile("" :: "r"(n)); }
NOINLINE void close_by(int who, long n) { __asm__ volatile("" :: "r"(n), "r"(who)); }
static void *thread(void *who)
{
	for (unsigned n = 0; n < sizeof numbers / sizeof *numbers; n++) far_away(numbers[n]);
	for (unsigned n = 0; n < sizeof near / sizeof *near; n++) close_by((int)(long)who, near[n]);
	return 0;
}
static void one_round(void)
{
	pthread_t ids[4];
	for (long n = 0; n < 4; n++) pthread_create(&ids[n], 0, thread, (void *)n);
	for (long n = 0; n < 4; n++) pthread_join(ids[n], 0);
	puts("done");
}
"""
ASPECTS = """
table spread key(int) stddev;
table wide key(char [8]) stddev;
table sizes key(char [8]) quantize;
table least key(int) min;
call(void far_away(long n)) then { add(sizes, "all", n); add(wide, "all", n); };
call(void close_by(int who, long n)) then { add(spread, who, n); add(least, who, n); };
"""
THREADS, ROUNDS = 4, 3


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    listed = (
        ", ".join(f"{n}L" if n != -(2**63) else "-0x7fffffffffffffffL - 1" for n in each) for each in (NUMBERS, NEAR)
    )
    return build(tmp_path_factory.mktemp("tables"), PROGRAM % tuple(listed))


def histogram() -> dict[int, int]:
    """numpy's counts of NUMBERS, by where buckets begin: their end that is nearer to 0."""
    edges = [2**n for n in range(63)] + [np.inf]  # the last bucket on either side has all that is farther from 0
    positive, _ = np.histogram([n for n in NUMBERS if n > 0], edges)
    negative, _ = np.histogram([-n for n in NUMBERS if n < 0], edges)
    found = {2**n: int(count) for n, count in enumerate(positive)} | {0: NUMBERS.count(0)}
    found |= {-(2**n): int(count) for n, count in enumerate(negative)}
    return {start: count for start, count in found.items() if count}


def test_tables_keep_squares_and_buckets(program: Path, tmp_path: Path) -> None:
    with rounds(program) as running:
        with gilk.attach(running.pid) as target, gilk.weave(aspects(tmp_path, ASPECTS), target) as weaving:
            for _ in range(ROUNDS):
                assert running.ask() == "done"
            tables = {one.table.name: one for one in weaving.tables()}
    found: dict[str, dict[Any, Any]] = {
        name: {key_of(one.table, row): value_of(one.table, row) for row in one.rows} for name, one in tables.items()
    }
    assert found["spread"] == {(n,): int(statistics.pstdev(NEAR)) for n in range(THREADS)}
    assert found["least"] == {(n,): min(NEAR) for n in range(THREADS)}
    (wide,) = tables["wide"].rows
    assert wide.squares == THREADS * ROUNDS * sum(n * n for n in NUMBERS) % 2**128
    (sizes,) = found["sizes"].values()
    counted = {one["value"]: one["count"] for one in sizes if one["count"]}
    assert counted == {start: THREADS * ROUNDS * count for start, count in histogram().items()}
    shown = summary_text((), (), list(tables.values())).splitlines()
    pictured = [line.split("|") for line in shown if "|" in line]
    assert {int(start): int(bar.split()[-1]) for start, bar in pictured if int(bar.split()[-1])} == counted
    printed = json.loads(summary_json((), (), list(tables.values())))["tables"]
    assert printed["sizes"]["rows"] == [{"key": "all", "value": sizes}]
