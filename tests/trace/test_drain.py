# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every record arrives exactly once and in its thread's order, or is counted as dropped."""

from __future__ import annotations

import mmap
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gilk.trace import layout
from gilk.trace.drain import Chunk, Drain, Identity
from gilk.trace.layout import Geometry, Shared

NATIVE = Path(layout.__file__).parents[1] / "native"
SIGNAL = 1 << 31


class Memory:
    """A memory object seen from both ends: `shared` plays the threads, `drain` is tested."""

    def __init__(self, geometry: Geometry) -> None:
        self.fd = os.memfd_create("gilk-test")
        os.ftruncate(self.fd, geometry.size)
        self.map = mmap.mmap(self.fd, geometry.size)
        geometry.initialise(memoryview(self.map))
        self.geometry = geometry
        self.shared = Shared(geometry, self.map)
        self.drain = Drain(geometry, self.map)

    def claim(self, index: int, pid: int = 100, tid: int = 0) -> None:
        head = self.shared.heads[index : index + 1]
        for name, value in (("state", 1), ("owner", 99), ("pid", pid), ("tid", tid or 1000 + index), ("birth", 5)):
            head[name] = value
        self.shared.control["next"] = max(int(self.shared.control["next"]), index + 1)

    def reserve(self, index: int, number: int) -> np.ndarray | None:
        """Reserve a record, like gilk_reserve() of gilk.h."""
        ring = self.shared.heads["ring"][index : index + 1, number]
        size = layout.RECORD_SIZES[number]
        at = int(ring["wpos"][0])
        if at + size > int(ring["limit"][0]):
            ring["drops"] += 1
            return None
        ring["wpos"] = at + size
        rows = self.shared.ring(index, number)
        return rows[at // size % len(rows)].view(layout.RECORDS[number])

    def log(self, index: int, value: int, number: int = 1, iid: int = 7) -> bool:
        record = self.reserve(index, number)
        if record is None:
            return False
        if number == 1:
            record["value"] = value
        record["tsc"], record["sp"], record["iid"] = value, 16, iid
        return True


@pytest.fixture
def memory() -> Iterator[Memory]:
    made = Memory(Geometry.plan(8, {0, 1}, threads=4, ring_bytes=4096))
    yield made
    os.close(made.fd)


def values(chunks: list[Chunk]) -> list[int]:
    return [int(value) for chunk in chunks for value in chunk.records["value"]]


def test_records_come_once_and_in_order_through_many_wraps(memory: Memory) -> None:
    memory.claim(0)
    got: list[int] = []
    for n in range(1000):
        assert memory.log(0, n)
        if n % 37 == 0:
            got += values(memory.drain.poll())
    assert got + values(memory.drain.poll()) == list(range(1000))
    assert memory.drain.poll() == []


def test_a_full_ring_drops_records_and_counts_them(memory: Memory) -> None:
    memory.claim(0)
    assert [memory.log(0, n) for n in range(130)].count(True) == 128
    assert values(memory.drain.poll()) == list(range(128))
    assert memory.drain.drops() == 2
    assert memory.log(0, 200)
    assert values(memory.drain.poll()) == [200]


def test_gaps_tell_where_records_are_missing(memory: Memory) -> None:
    memory.claim(0)
    logged = [n for n in range(130) if memory.log(0, n)]
    assert [chunk.gaps for chunk in memory.drain.poll()] == [()]  # the gap comes after these records
    logged += [n for n in range(200, 210) if memory.log(0, n)]
    (chunk,) = memory.drain.poll()
    assert (chunk.gaps, int(chunk.records["value"][0])) == ((0,), 200)
    for n in range(300, 428):
        memory.log(0, n)
    memory.drain.poll()
    for n in range(500, 510):
        memory.log(0, n)
    assert [chunk.gaps for chunk in memory.drain.poll()] == [()]  # the ring was full, but no record failed


def test_records_dropped_during_a_poll_are_a_gap_after_the_unread_records(memory: Memory) -> None:
    memory.claim(0)
    for n in range(100):
        memory.log(0, n)
    take_run = memory.drain._take_run

    def slow(run: np.ndarray, final: bool) -> tuple[np.ndarray, int]:
        got = take_run(run, final)
        for n in range(100, 140):
            memory.log(0, n)
        memory.drain._take_run = take_run  # type: ignore[method-assign]
        return got

    memory.drain._take_run = slow  # type: ignore[method-assign]
    assert values(memory.drain.poll()) == list(range(100))
    memory.log(0, 200)
    (chunk,) = memory.drain.poll()
    assert chunk.records["value"][list(chunk.gaps)].tolist() == [200]
    assert memory.drain.drops() == 12


def test_an_uncommitted_record_holds_back_later_ones(memory: Memory) -> None:
    memory.claim(0)
    memory.log(0, 1)
    torn = memory.reserve(0, 1)
    memory.log(0, 3)
    assert values(memory.drain.poll()) == [1]
    assert memory.drain.poll() == []
    assert torn is not None
    torn["value"], torn["iid"] = 2, 7
    assert values(memory.drain.poll()) == [2, 3]


@pytest.mark.parametrize("final", [False, True])
def test_an_uncommitted_record_is_not_taken_for_the_old_one_in_its_place(memory: Memory, final: bool) -> None:
    memory.claim(0)
    for n in range(128):
        memory.log(0, n)
    assert values(memory.drain.poll(final)) == list(range(128))
    torn = memory.reserve(0, 1)
    assert memory.drain.poll() == []
    assert torn is not None
    torn["value"], torn["iid"] = 500, 7
    assert values(memory.drain.poll()) == [500]


def test_a_record_never_committed_counts_as_dropped_at_the_end(memory: Memory) -> None:
    memory.claim(0)
    memory.reserve(0, 1)
    memory.log(0, 3)
    assert values(memory.drain.poll(final=True)) == [3]
    assert memory.drain.drops() == 1
    assert memory.drain.poll(final=True) == []


def test_chunks_name_their_thread_and_process(memory: Memory) -> None:
    memory.claim(2, pid=7, tid=8)
    memory.log(2, 1)
    memory.log(2, 1, number=0)
    assert [(c.identity, c.number) for c in memory.drain.poll()] == [(Identity(7, 8, 5), 0), (Identity(7, 8, 5), 1)]


@pytest.mark.parametrize("position", [1, 33, 4096 + 32, 1 << 40, (1 << 64) - 32])
def test_an_impossible_position_spoils_one_ring_only(memory: Memory, position: int) -> None:
    for index in (0, 1):
        memory.claim(index)
        memory.log(index, index)
    memory.shared.heads["ring"]["wpos"][0, 1] = position
    assert values(memory.drain.poll()) == [1]
    assert [error.slug for error in memory.drain.errors] == ["stream-corrupt"]
    memory.log(1, 5)
    assert values(memory.drain.poll()) == [5]
    assert memory.drain.corrupt == 1


def test_a_position_that_goes_back_is_corrupt(memory: Memory) -> None:
    memory.claim(0)
    for n in range(4):
        memory.log(0, n)
    memory.drain.poll()
    memory.shared.heads["ring"]["wpos"][0, 1] = 64
    assert memory.drain.poll() == []
    assert memory.drain.corrupt == 1


def test_random_bytes_everywhere_neither_crash_nor_loop(memory: Memory) -> None:
    random = np.random.default_rng(1)
    for _ in range(20):
        memory.map[:] = random.bytes(len(memory.map))
        memory.drain.poll()
        memory.drain.retire(set())
        memory.drain.counts(), memory.drain.drops(), memory.drain.nested(), memory.drain.identities()
    assert memory.drain.corrupt > 0


def test_blocks_that_were_never_claimed_are_not_read(memory: Memory) -> None:
    memory.claim(0)
    memory.claim(3)
    memory.shared.control["next"] = 1
    memory.log(0, 1)
    memory.log(3, 2)
    assert values(memory.drain.poll()) == [1]


def test_counts_survive_their_threads(memory: Memory) -> None:
    for index in (0, 1):
        memory.claim(index)
        memory.shared.counters[index, 3] = 10 + index
        memory.shared.heads["nested"][index] = 1
    alive = {(100, 1001)}
    assert memory.drain.retire(alive) == []
    memory.drain.retire(alive)
    assert memory.drain.counts().tolist() == [0, 0, 0, 21, 0, 0, 0, 0]
    assert memory.drain.nested() == 2
    assert memory.drain.identities() == [Identity(100, 1001, 5)]
    assert memory.shared.heads["state"].tolist() == [0, 1, 0, 0]
    assert memory.shared.heads["owner"].tolist()[0] == 0
    assert not memory.shared.counters[0].any()


def test_a_thread_born_since_the_list_was_made_is_not_retired(memory: Memory) -> None:
    memory.claim(0)
    memory.drain.retire(set())
    memory.drain.retire({(100, 1000)})
    memory.drain.retire(set())
    assert memory.shared.heads["state"][0] == 1
    memory.drain.retire(set())
    assert memory.shared.heads["state"][0] == 0


def test_a_retired_block_gives_its_last_records_and_is_reused(memory: Memory) -> None:
    memory.claim(0)
    memory.log(0, 1)
    memory.reserve(0, 1)
    memory.log(0, 3)
    memory.drain.retire(set())
    assert values(memory.drain.retire(set())) == [1, 3]
    memory.claim(0, tid=55)
    for n in range(128):
        assert memory.log(0, n)
    chunks = memory.drain.poll()
    assert (values(chunks), chunks[0].identity.tid) == (list(range(128)), 55)
    assert memory.drain.drops() == 1


def test_a_retired_block_with_a_corrupt_ring_is_reused(memory: Memory) -> None:
    memory.claim(0)
    memory.shared.heads["ring"]["wpos"][0, 1] = 77
    memory.drain.poll()
    memory.drain.retire(set())
    memory.drain.retire(set())
    memory.claim(0)
    memory.log(0, 9)
    assert values(memory.drain.poll()) == [9]


def test_threads_look_for_blocks_again_once_one_is_free(memory: Memory) -> None:
    for index in range(4):
        memory.claim(index)
    memory.shared.control["exhausted"] = 1
    memory.drain.retire(set())
    assert memory.shared.control["exhausted"] == 1
    memory.drain.retire(set())
    assert memory.shared.control["exhausted"] == 0


@pytest.fixture(scope="module")
def producer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("producer") / "producer"
    source = Path(__file__).with_name("producer.c")
    sources = [source, NATIVE / "runtime/claim.c"]
    options = ["-O2", "-mfsgsbase", f"-I{NATIVE}", "-pthread"]
    subprocess.run(["cc", *options, "-o", program, *sources], check=True)
    return program


def sequence(number: int, records: np.ndarray) -> list[int]:
    """The numbers that the producer gave its records."""
    if number == 0:
        return ((records["iid"] & (SIGNAL - 1)) - 1).tolist()
    if number == 1:
        return records["value"].tolist()
    if number == 2:
        first = records["arg"][:, 0]
        assert (records["arg"] == first[:, None] + np.arange(6)).all()
        return first.tolist()
    return [int(bytes(row["text"][: row["length"]])) for row in records]


Streams = dict[tuple[int, int, int], list[int]]


def run(producer: Path, ring_bytes: int, records: int, pause: float) -> tuple[Streams, Streams, Memory]:
    """(received, logged) per (tid, class, source), with draining while two threads and their signal handlers log."""
    memory = Memory(Geometry.plan(2, {0, 1, 2, 3}, threads=8, ring_bytes=ring_bytes))
    received: Streams = defaultdict(list)
    process = subprocess.Popen(
        [producer, str(memory.fd), "2", str(records)], pass_fds=[memory.fd], stdout=subprocess.PIPE, text=True
    )
    ended = False
    while not ended:
        ended = process.poll() is not None
        time.sleep(pause)
        for chunk in memory.drain.poll():
            of_signal = chunk.records["iid"] >= SIGNAL
            for source in (0, 1):
                key = (chunk.identity.tid, chunk.number, source)
                received[key] += sequence(chunk.number, chunk.records[of_signal == source])
    assert process.stdout is not None
    lines = [tuple(map(int, line.split())) for line in process.communicate()[0].splitlines()]
    assert process.returncode == 0
    return received, {(tid, number, source): [count] for tid, number, source, count in lines}, memory


@pytest.mark.parametrize(("ring_bytes", "pause"), [(4096, 0.0), (1 << 16, 0.001), (1 << 22, 0.01)])
def test_records_of_threads_and_signal_handlers_arrive_once_or_are_counted(
    producer: Path, ring_bytes: int, pause: float
) -> None:
    received, logged, memory = run(producer, ring_bytes, 20_000, pause)
    assert sum(count[0] for (_, _, source), count in logged.items() if source == 1) >= 400, "signals did come"
    for key, numbers in received.items():
        assert (np.diff(numbers) > 0).all(), key
        assert not numbers or numbers[-1] < logged[key][0]
    total = sum(count[0] for count in logged.values())
    arrived = sum(map(len, received.values()))
    assert arrived + memory.drain.drops() == total
    assert arrived > 1000
    assert memory.drain.corrupt == memory.drain.lost() == 0
    by_source = [sum(n[0] for (_, number, s), n in logged.items() if number == 0 and s == source) for source in (0, 1)]
    assert memory.drain.counts().tolist() == by_source
    os.close(memory.fd)
