# SPDX-License-Identifier: LGPL-2.1-or-later
"""Records by generated code: every hit gives one, or is counted as lost; records are in order, whole, and of the
right task."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator

import pytest

from gilk.errors import TargetError
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import DriverUnit, DriverUnitKind, RingChunk, Rings, Verdict
from tests.kernel.driver.driving import Guest
from tests.kernel.driver.handmade import Bench, count, registers_call, stamp

pytestmark = pytest.mark.xdist_group("lab")
IID = 0x1234


def stamped(guest: Guest, driver: Driver, bench: Bench, rings: Rings) -> DriverUnit:
    function = guest.function("__x64_sys_getppid")
    run = function.window(5, several=False)
    code = stamp(driver.hello, rings, driver.symbols["ilk_reserve"], bench.next, IID)
    return bench.before(function, run, code)


def everything(driver: Driver) -> Iterator[RingChunk]:
    while some := list(driver.drain()):
        yield from some


def rows(chunk: RingChunk) -> Iterator[tuple[int, int, int]]:
    yield from struct.iter_unpack("<QII", chunk.records)


def test_every_hit_gives_a_record(guest: Guest, driver: Driver, bench: Bench) -> None:
    rings = driver.records((20, 0, 0, 0))
    assert driver.apply([stamped(guest, driver, bench, rings)])[0].verdict == Verdict.OK
    guest.call("getppid", 5000, threads=4)
    chunks = list(everything(driver))
    found = [row for chunk in chunks for row in rows(chunk)]
    assert len(found) == 20000 and not any(driver.status().lost)
    assert {iid for _, iid, _ in found} == {IID}
    tasks = Counter(who & 0x3FFFFF for _, _, who in found)
    assert sorted(tasks.values()) == [5000] * 4
    for cpu in {chunk.cpu for chunk in chunks}:
        times = [row[0] for chunk in chunks if chunk.cpu == cpu for row in rows(chunk)]
        assert times == sorted(times)


def test_records_without_room_are_counted(guest: Guest, driver: Driver, bench: Bench) -> None:
    """The smallest ring holds two chunks."""
    rings = driver.records((15, 0, 0, 0))
    driver.apply([stamped(guest, driver, bench, rings)])
    room = 2 * rings.chunk // 16
    guest.call("getppid", 10000, threads=4)
    found = sum(len(list(rows(chunk))) for chunk in everything(driver))
    lost = driver.status().lost[0]
    assert found + lost == 40000
    assert lost > 0 and found <= room * driver.hello.cpus
    guest.call("getppid", 10)
    again = sum(len(list(rows(chunk))) for chunk in everything(driver))
    assert again == 10, "the ring goes on once there is room"


def test_a_ring_wraps_around_many_times(guest: Guest, driver: Driver, bench: Bench) -> None:
    rings = driver.records((16, 0, 0, 0))
    driver.apply([stamped(guest, driver, bench, rings)])
    found = 0
    for _ in range(30):
        guest.call("getppid", 1500)
        found += sum(len(list(rows(chunk))) for chunk in everything(driver))
    assert found + driver.status().lost[0] == 45000
    assert driver.status().lost[0] == 0


def test_records_are_whole_or_lost_when_read_while_written(guest: Guest, driver: Driver, bench: Bench) -> None:
    """The link has two clients: the calls run in the machine while the test reads."""
    rings = driver.records((17, 0, 0, 0))
    driver.apply([stamped(guest, driver, bench, rings)])
    output = bytearray()
    made = found = turns = 0
    while turns < 3:
        process = guest.link.spawn([str(guest.program), "110", "100000", "2"], output.extend, output.extend)
        made += 200000
        while process.wait(0) is None:
            found += sum(len(list(rows(chunk))) for chunk in driver.drain())
            turns += 1
    found += sum(len(list(rows(chunk))) for chunk in everything(driver))
    assert found + driver.status().lost[0] == made


def test_four_clients_can_have_rings(guest: Guest, driver: Driver) -> None:
    driver.records((15, 0, 0, 0))
    with pytest.raises(TargetError) as caught:
        driver.records((15, 0, 0, 0))
    assert caught.value.slug == "driver-busy"


@pytest.mark.stock
def test_an_instrument_in_c_sees_the_registers(guest: Guest, driver: Driver, bench: Bench) -> None:
    """ilk_log_registers is called through the thunk: its record holds rip, and the arguments of the system call."""
    rings = driver.records((0, 0, 0, 20))
    function = guest.function("__x64_sys_getppid")
    run = function.window(5, several=False)
    log = bench.put(
        b"\x48\x89\xfa"  # mov %rdi, %rdx: the registers
        + b"\xbf" + struct.pack("<I", rings.number)  # mov $set, %edi; esi is the iid
        + b"\x48\xb8" + struct.pack("<Q", driver.symbols["ilk_log_registers"]) + b"\xff\xe0"
    )  # fmt: skip
    code = registers_call(run[0].ip, log, IID, driver.symbols["ilk_registers"], bench.next)
    assert driver.apply([bench.before(function, run, code)])[0].verdict == Verdict.OK
    guest.call("getppid", 100)
    found = [chunk.records[i : i + 256] for chunk in everything(driver) for i in range(0, len(chunk.records), 256)]
    assert len(found) == 100
    for record in found:
        _, iid, _, length = struct.unpack_from("<QIII", record)
        registers = struct.unpack_from("<18Q", record, 24)
        assert (iid, length, registers[16]) == (IID, 0, run[0].ip)
        assert registers[4] >> 47 == 0x1FFFF, "a kernel stack"
    stacks = {struct.unpack_from("<Q", record, 24 + 8 * 4)[0] >> 14 for record in found}
    assert len(stacks) == 1, "of one task; the depth in it differs, the kernel sees to that at every system call"


@pytest.mark.stock
def test_an_instrument_is_not_reentered(guest: Guest, driver: Driver, bench: Bench) -> None:
    """The instrument calls a function which has the same instrument: the inner hits are counted as missed."""
    function, inner = guest.function("__x64_sys_getppid"), guest.function("__x64_sys_getpgrp")
    block = driver.counters(2)[0]
    calls_inner = bench.put(count(block.offset(0)) + b"\x48\xb8" + struct.pack("<Q", inner.address) + b"\xff\xe0")
    units = []
    for each in (function, inner):
        run = each.window(5, several=False)
        thunk = registers_call(run[0].ip, calls_inner, IID, driver.symbols["ilk_registers"], bench.next)
        units.append(bench.before(each, run, thunk))
    before = driver.status().missed
    assert {each.verdict for each in driver.apply(units)} == {Verdict.OK}
    guest.call("getppid", 100)
    assert driver.read(0, 1) == [100]
    assert driver.status().missed - before == 100
    assert {unit.kind for unit in units} == {DriverUnitKind.SINGLE}


def test_a_process_filter_without_rings_is_refused(driver: Driver) -> None:
    with pytest.raises(TargetError) as caught:
        driver.filter(add=[1])
    assert caught.value.slug == "driver-refused"


def test_a_filter_keeps_records_of_a_set_of_processes(driver: Driver) -> None:
    """The driver tells how many processes are in the set; an impossible number changes nothing."""
    driver.records((15, 0, 0, 0))
    assert driver.filter(only=True, add=[1, 2, 3, (1 << 22) - 1]) == 4
    assert driver.filter(only=True, add=[3, 4], remove=[1, 77]) == 4
    for wrong in (0, 1 << 22):  # 0 is every processor's idle task, and stands for interrupts
        with pytest.raises(TargetError) as caught:
            driver.filter(only=True, add=[5, wrong], clear=True)
        assert caught.value.slug == "driver-refused"
    assert driver.filter() == 4
    assert driver.filter(add=[9], clear=True) == 1


def test_records_of_c_instruments_are_filtered(guest: Guest, driver: Driver, bench: Bench) -> None:
    """Only the records of other processes are left out: the instruments run all the same."""
    rings = driver.records((0, 17, 0, 0))
    function, block = guest.function("__x64_sys_getppid"), driver.counters(1)[0]
    run = function.window(5, several=False)
    log = bench.put(
        count(block.offset(0))
        + b"\xbf" + struct.pack("<I", rings.number)  # mov $set, %edi; esi is the iid
        + b"\x48\xb8" + struct.pack("<Q", driver.symbols["ilk_log_pair"]) + b"\xff\xe0"
    )  # fmt: skip
    code = registers_call(run[0].ip, log, IID, driver.symbols["ilk_registers"], bench.next)
    assert driver.apply([bench.before(function, run, code)])[0].verdict == Verdict.OK
    made = []
    for settings in ({"on": False}, {"only": True}, {}):
        driver.filter(**settings)
        guest.call("getppid", 100)
        made.append(sum(len(chunk.records) // 32 for chunk in everything(driver)))
    assert made == [0, 0, 100] and driver.read(0, 1) == [300]
