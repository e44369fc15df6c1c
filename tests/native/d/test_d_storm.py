# SPDX-License-Identifier: LGPL-2.1-or-later
"""Threads, signal handlers and processes that die, all at once on one memory: nothing is lost, mixed up, or stuck."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from gilk.toolchain.compilers import NATIVE
from gilk.trace.d.aggregations import AggregationReader
from gilk.trace.d.drops import DropKind, Drops
from gilk.trace.d.layout import BufferPolicy
from gilk.trace.d.memory import MemoryOptions
from gilk.trace.d.records import ClauseRecord, Records
from gilk.trace.d.tables import Key
from tests.behaviour.waiting import PATIENCE
from tests.native.d.session import KNOWN, Shared, storm
from tests.native.host import ALONE
from tests.seldom import seldom

pytestmark = pytest.mark.usefixtures("either_host")
OPTIONS = {"processors": 2, "aggregations": len(KNOWN), "largest_variable": 48, "nspec": 3}
Series = tuple[int, int, int]  # tid, source, how many


def shared(**options: object) -> Shared:
    return Shared(MemoryOptions(**{**OPTIONS, **options}))  # type: ignore[arg-type]


def finish(process: subprocess.Popen[str]) -> list[Series]:
    """The series of each thread's loop, and of its handler."""
    output, _ = process.communicate(timeout=PATIENCE)
    lines = [[int(word) for word in line.split()] for line in output.splitlines() if "wrong" not in line]
    assert process.returncode == 0, output
    return [(line[0], source, line[1 + source]) for line in lines for source in (0, 1)]


def stepped(process: subprocess.Popen[str]) -> tuple[int, int, int]:
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    outer, inner, left = (int(word) for word in output.splitlines()[0].split())
    assert inner > 2
    return outer, inner, left


def expected(lengths: Iterable[int]) -> dict[Key, tuple[int, ...]]:
    """The results of aggregate() of storm.c, called with 0, 1, 2... for each of these lengths."""
    values = np.concatenate([np.arange(length) for length in lengths])
    found: dict[Key, tuple[int, ...]] = {(1, b""): (len(values),)}
    for key in range(64):
        found[2, np.array([key, 0], "<u8").tobytes()] = (int((values % 64 == key).sum()),)
    for key in range(4):
        mine = values[values % 4 == key]
        name = np.array([key], "<u8").tobytes()
        found[3, name] = (int((mine % 100 - 50).sum()),)
        found[4, name], found[5, name] = (-int(mine.max()),), (int(mine.max()),)
        found[6, name] = (len(mine), int(mine.sum()))
        square = sum(int(value) ** 2 << 66 for value in mine.tolist())
        total = (int(mine.sum()) << 33) + (1 << 63) & (1 << 64) - 1
        found[7, name] = (len(mine), total - (1 << 63), square & (1 << 64) - 1, square >> 64)
        logs = Counter(63 if value == 0 else 63 + value.bit_length() for value in mine.tolist())
        found[8, name] = tuple(logs[bucket] for bucket in range(127))
        tens = Counter(min(value % 120 // 10, 10) + 1 for value in mine.tolist())
        found[9, name] = tuple(tens[bucket] for bucket in range(12))
        edges = KNOWN[9].what.edges
        places = Counter(19 + sum(edge <= value % 120 for edge in edges) for value in mine.tolist())
        found[10, name] = tuple(places[bucket] for bucket in range(39))
    return found


def check_aggregations(made: Shared, count: int) -> None:
    reader = AggregationReader(made.memory, KNOWN)
    process = made.storm("threads", "aggregate", 8, count)
    before = 0
    while process.poll() is None:
        now = reader.snapshot().get((1, b""), (0,))[0]
        assert now >= before
        before = now
    series = finish(process)
    assert sum(length for _, source, length in series if source) > 0, "no handler ran"
    assert reader.snapshot() == expected(length for _, _, length in series)
    assert not reader.errors and not Drops(made.memory).look()


def test_no_update_of_concurrent_threads_is_lost() -> None:
    check_aggregations(shared(), 1500)


def test_no_update_is_lost_to_clear_or_to_a_change_of_tables() -> None:
    made = shared()
    reader = AggregationReader(made.memory, KNOWN)
    process = made.storm("threads", "aggregate", 4, 3000)
    total = 0
    while process.poll() is None:
        total += reader.snapshot().get((1, b""), (0,))[0]
        reader.clear(1)
    series = finish(process)
    reader.switch()
    reader.retire()
    total += reader.snapshot()[1, b""][0]
    assert total == sum(length for _, _, length in series)
    assert AggregationReader(made.memory, KNOWN).snapshot() == {}, "the tables are empty"


def test_concurrent_inserts_of_the_same_keys_make_one_entry_each() -> None:
    made = shared()
    series = finish(made.storm("threads", "insert", 8, 3000))
    found = AggregationReader(made.memory, KNOWN).snapshot()
    lengths = np.array([length for _, _, length in series])
    for n in range(int(lengths.max())):
        assert found.pop((2, np.array([n], "<u8").tobytes())) == (int((lengths > n).sum()),)
    assert not found


def check_records(records: Iterable[ClauseRecord]) -> Counter[tuple[int, int]]:
    """Assert that all records are whole, and none is there twice. Returns their number by tid and source."""
    seen: set[tuple[int, int, int]] = set()
    for record in records:
        words = np.frombuffer(record.data, "<u8")
        n = int(words[0])
        assert len(words) == 2 + n % 13 and (words == n).all() and n % 16 != 5
        assert (record.tid, record.epid, n) not in seen
        seen.add((record.tid, record.epid, n))
    return Counter((tid, epid - 1) for tid, epid, _ in seen)


@pytest.mark.parametrize("bufsize", [1 << 14, 1 << 22])
def test_every_record_is_read_once_or_counted_as_dropped(bufsize: int) -> None:
    made = shared(bufsize=bufsize)
    reader = Records(made.memory)
    process = made.storm("threads", "record", 8, 3000)
    records: list[ClauseRecord] = []
    while process.poll() is None:
        taken = reader.poll()
        assert [record.tsc for record in taken] == sorted(record.tsc for record in taken)
        records += taken
    series = finish(process)
    records += reader.poll(final=True)
    counts = check_records(records)
    meant = sum(length - (length + 10) // 16 for _, _, length in series)
    dropped = Drops(made.memory).totals()[DropKind.PRINCIPAL]
    # A dropped one may be one that would have been discarded.
    assert meant - dropped <= sum(counts.values()) <= meant
    assert (bufsize < 1 << 20) or dropped == 0
    assert not reader.errors and not reader.abandoned


@pytest.mark.parametrize("policy", [BufferPolicy.RING, BufferPolicy.FILL])
def test_buffers_with_policies_read_at_the_end(policy: BufferPolicy) -> None:
    made = shared(bufsize=1 << 14, policy=policy)
    reader = Records(made.memory)
    series = finish(made.storm("threads", "record", 4, 3000))
    assert reader.poll() == []
    records = reader.poll(final=True)
    check_records(records)
    for cpu in range(2):
        volume = sum(len(record.data) + 32 for record in records if record.cpu == cpu)
        assert not volume or (1 << 14) * 0.7 < volume <= 1 << 14
    numbers = [np.frombuffer(record.data, "<u8")[0] for record in records if record.epid == 1]
    if policy == BufferPolicy.RING:
        assert max(numbers) >= 2990 and len(series) == 8
    else:
        assert reader.full and not Drops(made.memory).look()
    assert not reader.errors


def test_speculations_are_whole_and_all_are_freed() -> None:
    made = shared(specsize=1 << 12)
    series = finish(made.storm("threads", "keep", 4, 3000))
    reader = Records(made.memory)
    check_records(reader.poll(final=True))
    assert sum(length for _, _, length in series) >= 12000 and not reader.errors
    at, stride = made.layout.speculation_first, made.layout.speculation_stride
    words = np.ndarray((made.layout.speculations,), "<u8", made.map, at, (stride,))
    assert not (words & 0xFFFF).any(), "one is not free, or has writers"


def slots(made: Shared) -> Counter[int]:
    """The number of slots in each state, with 8 added for pinned ones. Asserts that no key is a member twice."""
    layout = made.layout
    words = np.ndarray((layout.dynamic_slots,), "<u8", made.map, layout.dynamic_words)
    keys = []
    for slot in np.flatnonzero((words & 7) == 3).tolist():
        at = layout.dynamic_first + slot * layout.dynamic_stride
        keys.append(made.map[at : at + 16 + int.from_bytes(made.map[at + 12 : at + 16], "little")])
    assert len(set(keys)) == len(keys)
    return Counter(((words & 7) + np.where(words & 0x7FF8, 8, 0)).tolist())


@pytest.mark.parametrize("dynvarsize", [1 << 20, 1 << 11])
def test_variables_of_concurrent_threads_keep_their_values(dynvarsize: int) -> None:
    made = shared(dynvarsize=dynvarsize)
    finish(made.storm("threads", "churn", 8, 6000))
    assert set(slots(made)) <= {0, 3}, "a slot was not given back"
    assert dynvarsize < 1 << 20 or not Drops(made.memory).look()


# The operation, and that of the handler.
STEPS = [("ii", 5), ("rr", 7), ("kk", 7), ("cc", 13), ("ss", 5), ("ds", 11), ("sd", 5)]


def check_step(what: str, stride: int, program: Path | None = None) -> None:
    made = shared(bufsize=1 << 20)
    outer, inner, _ = stepped(made.storm("step", what, stride, 0, program=program))
    assert not Drops(made.memory).look()
    if what == "ii":
        found = AggregationReader(made.memory, KNOWN).snapshot()
        assert sum(cells[0] for cells in found.values()) == outer + inner
    elif what == "rr":
        counts = check_records(Records(made.memory).poll(final=True))
        assert sum(counts.values()) == sum(n - (n + 10) // 16 for n in (outer, inner))
    elif what in ("ss", "ds", "sd"):
        assert slots(made)[3] == 1 and set(slots(made)) <= {0, 3}


@pytest.mark.parametrize(("what", "stride"), STEPS)
def test_a_signal_handler_at_an_instruction_loses_nothing(what: str, stride: int) -> None:
    check_step(what, stride)


@pytest.mark.parametrize(("what", "stride"), [("ii", 1), ("rr", 7), ("kk", 7)])
def test_a_handler_at_an_instruction_of_unlocked_code_loses_nothing(what: str, stride: int, either_host: str) -> None:
    """This host is like the kernel: everything that interrupts does so on the same processor."""
    if either_host == "test":
        check_step(what, stride, storm(ALONE))


def test_negative_control_a_nonatomic_update_is_lost(tmp_path: Path, either_host: str) -> None:
    """Negative control: the count is read, and written back after the interruption."""
    if either_host != "test":
        return
    for part in ("abi", "host", "runtime"):
        shutil.copytree(NATIVE / part, tmp_path / part)
    header = tmp_path / "host" / "own.h"
    divided = "*(volatile gilk_u64 *)word = *(volatile gilk_u64 *)word + value;"
    text, count = re.subn(r'__asm__ volatile\("addq[^;]*;', divided, header.read_text())
    assert count == 1
    header.write_text(text)
    made = shared(bufsize=1 << 20)
    outer, inner, _ = stepped(made.storm("step", "ii", 1, 0, program=storm(ALONE, tmp_path)))
    assert sum(cells[0] for cells in AggregationReader(made.memory, KNOWN).snapshot().values()) < outer + inner


@pytest.mark.parametrize("what", seldom(["lu", "wu"], 1))
def test_a_slot_reused_during_an_access_gives_no_foreign_value(what: str) -> None:
    made = shared(dynvarsize=1)
    assert made.layout.dynamic_slots == 2
    stepped(made.storm("step", what, 17, 0))


def test_a_minimum_or_maximum_is_seen_before_or_after_clear() -> None:
    stepped(shared().storm("step", "me", 1, 0))


@pytest.mark.stress
@pytest.mark.parametrize("what", [what for what, _ in STEPS])
def test_a_signal_handler_at_each_instruction_loses_nothing(what: str) -> None:
    check_step(what, 1)


def test_a_signal_handler_at_an_instruction_of_any_aggregation_loses_nothing() -> None:
    made = shared()
    outer, inner, _ = stepped(made.storm("step", "aa", 97, 0))
    found = AggregationReader(made.memory, KNOWN).snapshot()
    model = expected([outer, inner])
    assert found == {key: cells for key, cells in model.items() if key in found or any(cells)}


def test_records_of_threads_that_died_halfway_stop_no_other() -> None:
    made = shared(bufsize=1 << 20)
    outer, inner, left = stepped(made.storm("step", "rr", 5, 1))
    assert left > 20
    living = Records(made.memory, gone=lambda tid: False)
    living.poll()
    reader = Records(made.memory, gone=lambda tid: True)
    counts = check_records(reader.poll())
    assert reader.abandoned > 0 and not reader.errors
    tid = next(iter(counts))[0]
    assert counts[tid, 1] == inner - (inner + 10) // 16
    assert outer - left <= counts[tid, 0] + 1


def test_variables_of_threads_that_died_halfway_stop_no_other() -> None:
    made = shared()
    _, inner, left = stepped(made.storm("step", "ss", 17, 1))
    found = slots(made)
    assert left > 3 and found[3] + found[3 + 8] == 1
    value = made.session(tid=1)
    room = ctypes.create_string_buffer(8)
    assert value.dynamic_load(1, (3).to_bytes(8, "little"), 8, room, 8)
    assert int.from_bytes(room.raw, "little") <= inner


@pytest.mark.parametrize("what", ["record", "aggregate", "churn", "keep"])
def test_killed_processes_leave_the_memory_consistent(what: str) -> None:
    made = shared(policy=BufferPolicy.RING, bufsize=1 << 16)
    output, _ = (process := made.storm("fork", what, 12)).communicate(timeout=250)
    assert process.returncode == 0 and "wrong 0" in output
    reader = Records(made.memory)
    reader.poll()
    check_records(reader.poll(final=True))
    assert not reader.errors
    aggregations = AggregationReader(made.memory, KNOWN)
    aggregations.snapshot()
    assert not aggregations.errors


@pytest.mark.stress
def test_no_update_is_lost_in_a_minute() -> None:
    for _ in range(20):
        check_aggregations(shared(), 20000)


@pytest.mark.stress
def test_variables_of_concurrent_threads_keep_their_values_for_long() -> None:
    for dynvarsize in (1 << 20, 1 << 11):
        made = shared(dynvarsize=dynvarsize)
        finish(made.storm("threads", "churn", 8, 500000))
        assert set(slots(made)) <= {0, 3}
