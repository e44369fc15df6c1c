# SPDX-License-Identifier: LGPL-2.1-or-later
"""Rings that keep the newest records: no record is partly another's, and overwritten records are counted."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import DriverUnit, RingChunk, Rings, Verdict
from tests.behaviour.waiting import wait_for
from tests.kernel.driver.driving import NUMBERS, Guest
from tests.kernel.driver.handmade import Bench, count, stamp
from tests.kernel.driver.test_records import everything, rows

pytestmark = pytest.mark.xdist_group("lab")
PUSHED = bytes.fromhex("50 51 52 56 57 4150 4151 4152 4153")
POPPED = bytes.fromhex("415b 415a 4159 4158 5f 5e 5a 59 58")
MARK, PART, IID, SLOW = 0x12345678, 0x2ABCDE, 0x1234, 0x5678
NAP = 20  # ms
PREEMPTION = "/sys/kernel/debug/sched/preempt"


def stamped(guest: Guest, driver: Driver, bench: Bench, rings: Rings, name: str = "getppid") -> DriverUnit:
    function = guest.function(f"__x64_sys_{name}")
    code = stamp(driver.hello, rings, driver.symbols["ilk_reserve"], bench.next, IID)
    return bench.before(function, function.window(5, several=False), code)


def far_call(address: int) -> bytes:
    """The code of movabs $address, %r11; call *%r11."""
    return b"\x49\xbb" + struct.pack("<Q", address) + b"\x41\xff\xd3"


def sleeping(guest: Guest, driver: Driver, bench: Bench, rings: Rings) -> tuple[DriverUnit, DriverUnit]:
    """Units by which getuid makes a record whose time is filled in before a sleep, and the rest after it; getgid
    ends the sleep. The first two counters are of calls of getgid, and of records under way."""
    block = driver.counters(2)[0]
    woken = block.offset(0)
    nap = b"\x50\xbf" + struct.pack("<I", NAP) + far_call(guest.symbols["msleep"]) + b"\x58"  # push %rax ... pop %rax
    nap += bytes.fromhex("6548833c25") + struct.pack("<i", woken) + b"\0"  # cmpq $0, %gs:woken
    nap += b"\x74" + struct.pack("<b", -(len(nap) + 2))
    filling = b"\x48\xc7\x00" + struct.pack("<I", MARK) + count(block.offset(1)) + nap  # movq $MARK, (%rax)
    filling += b"\xc7\x40\x0c" + struct.pack("<I", PART) + b"\xc7\x40\x08" + struct.pack("<I", SLOW)
    code = PUSHED + b"\xb8" + struct.pack("<I", 4 * rings.number) + far_call(driver.symbols["ilk_reserve"])
    code += b"\x48\x85\xc0\x74" + struct.pack("<b", len(filling)) + filling + POPPED
    slow, wakes = guest.function("__x64_sys_getuid"), guest.function("__x64_sys_getgid")
    return (
        bench.before(slow, slow.window(5, several=False), code),
        bench.before(wakes, wakes.window(5, several=False), count(woken)),
    )


def calls(guest: Guest, name: str, *numbers: int, cpus: str = "3") -> list[str]:
    """The command that makes the calls; `cpus` is the mask of the CPUs on which it may run."""
    return ["taskset", cpus, str(guest.program), str(NUMBERS[name]), *map(str, numbers)]


def wake(guest: Guest) -> None:
    for cpu in ("1", "2"):
        guest.run(*calls(guest, "getgid", 1, cpus=cpu))


@contextmanager
def preemptible(guest: Guest) -> Iterator[None]:
    """In the block, tasks may be preempted anywhere in the kernel."""
    guest.mount("debugfs", "/sys/kernel/debug")
    guest.write(PREEMPTION, "full")
    try:
        yield
    finally:
        guest.write(PREEMPTION, "voluntary")


def applied(driver: Driver, *units: DriverUnit) -> None:
    assert {outcome.verdict for outcome in driver.apply(units)} == {Verdict.OK}


def test_the_newest_records_are_kept(guest: Guest, driver: Driver, bench: Bench) -> None:
    """The records of the last calls are all there, on whatever CPU they were made, and some of those before."""
    rings = driver.records((16, 0, 0, 0), flight=True)  # 4096 records
    applied(driver, stamped(guest, driver, bench, rings))
    guest.call("getppid", 10000, threads=4)
    guest.call("getppid", 2000)
    chunks = list(everything(driver))
    tasks = Counter(who & 0x3FFFFF for chunk in chunks for _, _, who in rows(chunk))
    lost = driver.status().lost[0]
    assert tasks[max(tasks)] == 2000 and len(tasks) > 1
    assert tasks.total() + lost == 42000 and lost > 40000 - 4096 * driver.hello.cpus
    assert max(chunk.lost for chunk in chunks) <= lost
    guest.call("getppid", 10)
    assert sum(len(list(rows(chunk))) for chunk in everything(driver)) == 10


def whole(chunks: list[RingChunk]) -> int:
    """The number of records. Each must have its number, and the times of each CPU must increase."""
    times: dict[int, list[int]] = {}
    for chunk in chunks:
        for time, iid, who in rows(chunk):
            assert iid == IID and who
            times.setdefault(chunk.cpu, []).append(time)
    for some in times.values():
        assert some == sorted(some)
    return sum(len(some) for some in times.values())


@pytest.mark.parametrize("order", [15, 16])
def test_records_are_whole_when_read_while_they_are_overwritten(
    guest: Guest, driver: Driver, bench: Bench, order: int
) -> None:
    rings = driver.records((order, 0, 0, 0), flight=True)
    applied(driver, stamped(guest, driver, bench, rings))
    chunks: list[RingChunk] = []
    rounds = 0
    while len(chunks) < 5 and rounds < 20:  # it is read while it is written
        process = guest.link.spawn([str(guest.program), str(NUMBERS["getppid"]), "60000", "2"], lambda _: None, print)
        while process.wait(0) is None:
            chunks += driver.drain()
        rounds += 1
    assert len(chunks) > 4
    chunks += everything(driver)
    assert whole(chunks) + driver.status().lost[0] == 120000 * rounds


def test_a_record_under_way_is_not_overwritten(guest: Guest, driver: Driver, bench: Bench) -> None:
    """Tasks sleep in the middle of a record, while others fill the ring several times over."""
    rings = driver.records((15, 0, 0, 0), flight=True)
    applied(driver, stamped(guest, driver, bench, rings), *sleeping(guest, driver, bench, rings))
    slow = [guest.link.spawn(calls(guest, "getuid", 1), lambda _: None, print) for _ in range(4)]
    assert wait_for(lambda: driver.read(1, 1) == [4])
    guest.call("getppid", 20000, threads=2)
    assert [process.wait(0) for process in slow] == [None] * 4
    wake(guest)
    assert [process.wait(60) for process in slow] == [0] * 4
    found = [row for chunk in everything(driver) for row in rows(chunk)]
    assert [row for row in found if row[1] == SLOW] == [(MARK, SLOW, PART)] * 4
    others = [row for row in found if row[1] == IID]
    assert all(time != MARK and who != PART for time, _, who in others)
    assert len(found) + driver.status().lost[0] == 40004


def test_records_of_preempted_tasks_are_whole(guest: Guest, driver: Driver, bench: Bench) -> None:
    rings = driver.records((15, 0, 0, 0), flight=True)
    applied(driver, stamped(guest, driver, bench, rings))
    with preemptible(guest):
        guest.call("getppid", 5000, threads=16)
        found = [row for chunk in everything(driver) for row in rows(chunk)]
    assert {iid for _, iid, _ in found} == {IID}
    assert len(found) + driver.status().lost[0] == 80000


def test_records_are_lost_and_counted_if_all_chunks_have_one_under_way(
    guest: Guest, driver: Driver, bench: Bench
) -> None:
    """Then there is no room, and the loss is counted; when the records are complete there is room again."""
    rings = driver.records((15, 0, 0, 0), flight=True)
    applied(driver, stamped(guest, driver, bench, rings), *sleeping(guest, driver, bench, rings))
    slow = []
    for number in (1, 2):  # one in each chunk of that CPU
        slow.append(guest.link.spawn(calls(guest, "getuid", 1, cpus="1"), lambda _: None, print))
        assert wait_for(lambda number=number: driver.read(1, 1) == [number])
        guest.run(*calls(guest, "getppid", 1023, cpus="1"))
    guest.run(*calls(guest, "getppid", 500, cpus="1"))
    assert driver.status().lost[0] == 500
    assert [process.wait(0) for process in slow] == [None] * 2
    wake(guest)
    assert [process.wait(60) for process in slow] == [0] * 2
    found = [row for chunk in everything(driver) for row in rows(chunk)]
    assert len(found) == 2 * 1024 and found.count((MARK, SLOW, PART)) == 2
    guest.run(*calls(guest, "getppid", 100, cpus="1"))
    assert sum(len(list(rows(chunk))) for chunk in everything(driver)) == 100
