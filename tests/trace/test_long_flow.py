# SPDX-License-Identifier: LGPL-2.1-or-later
"""An index that is made part by part equals that of the flow of all samples at once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gilk.trace import call_index, flow_build, flow_summary, long_flow
from gilk.trace.about import About, Tally
from gilk.trace.call_index import TYPES, CallIndex
from gilk.trace.part_reading import Whole
from gilk.trace.traced import Omitted, TraceDescription, Unended
from tests.seldom import seldom
from tests.trace.machine import Machine, about, nested, run, samples

EVERY = "abcdxyz"


def parts(table: pa.Table, size: int) -> Iterator[pa.Table]:
    for first in range(0, table.num_rows, size):
        yield table.slice(first, size)


def room(wanted: dict[str, tuple[str, int]]) -> dict[str, Any]:
    return {name: np.empty(count, kind) for name, (kind, count) in wanted.items()}


def made(table: pa.Table, size: int, tally: Tally, known: About) -> CallIndex:
    return long_flow.index(parts(table, size), known, tally, room, lambda _done: None)[0]


def named(found: CallIndex) -> dict[str, Any]:
    """An index in a form that can be compared: symbols by their names, because their numbers are arbitrary."""
    columns = {name: found.columns[name].tolist() for name in TYPES if name != "symbol"}
    symbols = [found.symbols[each] for each in found.columns["symbol"].tolist()]
    levels = [each.tolist() for each in found.levels]
    return {**columns, "symbols": symbols, "levels": levels, "first": found.first.tolist(), "tracks": found.tracks,
            "bounds": (found.start_ns, found.stop_ns), "gaps": found.gaps}  # fmt: skip


def same(table: pa.Table, size: int, tally: Tally | None = None, known: About | None = None) -> bool:
    """Whether the index could be made part by part; if so, asserts that it is the same. Asserts in any case that the
    summary is that of the flow."""
    tally, known = tally or Tally(), known or about()
    flow = flow_build.build(table, known, tally)
    counted = {state: number for state, number in flow.states.items() if number}
    summed = flow_summary.summary(table, known, tally, rows=size)
    assert ({state: n for state, n in summed.states.items() if n}, summed.threads) == (counted, len(flow.threads))
    try:
        found = made(table, size, tally, known)
    except Whole:
        return False
    theirs = named(call_index.of_flow(flow))
    mine = named(found)
    for name in theirs:
        assert mine[name] == theirs[name], name
    return True


def busy(seed: int, steps: int, threads: int, kernel: bool, jumps: float) -> Machine:
    """A random walk with repeated calls, most of them plain, and with few jumps."""
    chance = random.Random(seed)
    machine = Machine(chance)
    for _ in range(threads):
        machine.thread()
    while len(machine.records) < steps:
        thread = chance.choice(machine.threads)
        what = chance.random()
        if thread.kernel:
            if what < 0.3 and len(thread.kernel) < 4:
                machine.call(thread, chance.choice("xyz"), "kernel")
            else:
                machine.ret(thread)
        elif what < jumps and len(thread.stack) > 2:
            machine.jump(thread, chance.randrange(1, len(thread.stack) - 1))
        elif kernel and what < 0.1 and thread.stack and thread.tid not in machine.pending:
            machine.call(thread, "sys", "kernel")
        elif what < 0.5 and len(thread.stack) < 12:
            machine.call(thread, chance.choice("abcd"))
        elif thread.stack:
            machine.ret(thread)
    return machine


@pytest.mark.parametrize("size", [50, 333, 100_000])
@pytest.mark.parametrize("seed", seldom(range(6), 2))
def test_the_index_of_a_random_trace_equals_that_of_its_flow(seed: int, size: int) -> None:
    machine = run(seed, 3000, threads=3, kernel=seed % 2 == 1)
    table = machine.samples(start=seed * 40)
    same(table, size)
    assert same(busy(seed, 3000, 3, False, 0.0).samples(start=seed * 70), size), "there is nothing that is not exact"


@pytest.mark.parametrize("jumps", [0.0, 0.001, 0.02])
@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("seed", seldom(range(6), 2))
def test_the_index_of_a_trace_with_jumps_equals_that_of_its_flow(seed: int, kernel: bool, jumps: float) -> None:
    machine = busy(seed, 4000, 1 + seed % 4, kernel, jumps)
    for size in (200, 1500):
        table = machine.samples(start=seed * 30)
        done = same(table, size)
        assert done or kernel


@pytest.mark.parametrize("seed", seldom(range(8), 3))
def test_the_index_of_a_trace_with_lost_records_equals_that_of_its_flow(seed: int) -> None:
    """Records are missing, with a gap that says so, and without one."""
    chance = random.Random(seed)
    records = busy(seed, 3000, 2, seed % 3 == 0, 0.002).records
    kept = []
    for at, record in enumerate(records):
        if chance.random() < 0.003:
            later = next((each for each in records[at + 1 :] if each[2] == record[2]), None)
            if later is not None and seed % 2:
                kept.append((record[0], *record[1:3], "", "user", "gap", 1))
            continue
        kept.append(record)
    same(samples(kept), 400)


@pytest.mark.parametrize("seed", seldom(range(8), 3))
def test_the_index_of_a_trace_with_functions_left_out_equals_that_of_its_flow(seed: int) -> None:
    machine = busy(seed, 3000, 3, False, 0.002)
    end = machine.records[-1][0]
    omitted = (Omitted("b", "prog", end // 3, 5), Omitted("d", "prog", end // 2, 5))
    kept = [
        each for each in machine.records
        if not any(each[3] == one.function and each[0] > one.from_ns for one in omitted)
    ]  # fmt: skip
    traced = TraceDescription(3, end + 10, "now", "exit", omitted=omitted, unended=(Unended("a", "prog", "why"),))
    assert same(samples(kept), 500, Tally(trace=traced))


@pytest.mark.parametrize("jumps", [0.0, 0.002])
@pytest.mark.parametrize("seed", seldom(range(6), 2))
def test_the_index_of_functions_that_jump_to_their_start_equals_that_of_its_flow(seed: int, jumps: float) -> None:
    chance = random.Random(seed)
    known = about()
    heads = tuple(
        each if each.function != "c" or not each.point.endswith("entry") else replace(
            each, kind="time-head") for each in known.probes
    )  # fmt: skip
    records = []
    for record in busy(seed, 2000, 2, False, jumps).records:
        if record[3] == "c" and record[5] == "time-entry":
            record = (*record[:5], "time-head", record[6])
            records += [record] * chance.choice((1, 1, 3))
        else:
            records.append(record)
    assert same(samples(records), 300, known=replace(known, probes=heads)) or jumps


def test_the_index_of_several_processes_and_stacks_equals_that_of_its_flow() -> None:
    """Two processes use the same addresses; a thread that takes over another's stack must be handled as a whole."""
    one = busy(1, 1000, 2, False, 0.001).records
    both = sorted([*one, *((t + 1, 2, tid + 10, *rest) for t, _, tid, *rest in one)], key=lambda each: each[0])
    assert same(samples(both), 300)  # type: ignore[arg-type]
    shared = nested(*[("a", 10, ("b", 5))] * 50) + nested(*[("a", 10, ("b", 5))] * 50, tid=2, start=10_000)
    assert not same(samples(shared), 60)


def test_the_index_of_a_loop_takes_little_memory() -> None:
    """In a loop of calls, hardly anything is processed twice."""
    table = samples(nested(("a", 10, *[("b", 20, ("c", 5, ("d", 1)), ("d", 2))] * 3000)))
    flow = long_flow.index(parts(table, 5000), about(), Tally(), room, lambda _done: None)[1]
    assert flow.table.num_rows < 100
    assert same(table, 5000)


@pytest.mark.parametrize("table", [samples([]), samples(nested(("a", 1)))[:1], samples(nested(("a", 1)))[1:]])
def test_the_index_of_a_small_trace_equals_that_of_its_flow(table: pa.Table) -> None:
    assert same(table, 10) or not table.num_rows


def test_traces_with_late_records_or_executed_programs_are_indexed_as_a_whole() -> None:
    records = nested(("a", 10, ("b", 5)))
    assert not same(samples([records[1], records[0], *records[2:]]), 10)
    assert not same(samples([*records, (100, 1, 1, "", "user", "program", 0)]), 10)
