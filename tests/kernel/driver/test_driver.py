# SPDX-License-Identifier: LGPL-2.1-or-later
"""The driver in a stock kernel: probes that it puts in count correctly, and taking them out leaves no trace.

The oracle for counts is how often a program makes a system call that nothing else makes; the oracle for the text is
/proc/kcore.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gilk.errors import TargetError
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import DriverUnit, DriverUnitKind, Verdict
from tests.kernel.driver.driving import Guest
from tests.kernel.driver.handmade import Bench, Function, count, count_far, is_call, jump

pytestmark = pytest.mark.xdist_group("lab")
CALLS = 1000


@pytest.fixture
def parent(guest: Guest) -> Function:
    """A function that one system call runs once."""
    return guest.function("__x64_sys_getppid")


def test_the_driver_reports_release_and_addresses(guest: Guest, driver: Driver) -> None:
    assert driver.hello.release == guest.release
    assert driver.hello.text_start == guest.symbols["_stext"]
    assert driver.hello.text_end == guest.symbols["_etext"]
    assert driver.hello.current_gs == guest.symbols["current_task"]  # a per-CPU symbol's value is its offset
    assert driver.hello.cpus == int(guest.run("nproc"))
    assert {"ilk_reserve", "ilk_registers"} <= driver.symbols.keys()
    assert driver.symbols["ilk_reserve"] == guest.symbols["ilk_reserve"]


def test_a_splice_over_one_instruction_counts(guest: Guest, driver: Driver, bench: Bench, parent: Function) -> None:
    block = driver.counters(1)[0]
    assert block.near
    unit = bench.before(parent, parent.window(5, several=False), count(block.gs))
    assert unit.kind == DriverUnitKind.SINGLE
    assert guest.counted(driver, [unit], "getppid", CALLS) == [CALLS]


def test_a_splice_over_several_instructions_counts(
    guest: Guest, driver: Driver, bench: Bench, parent: Function
) -> None:
    block = driver.counters(1)[0]
    unit = bench.before(parent, parent.window(5, several=True), count(block.gs))
    assert unit.kind == DriverUnitKind.MULTI
    assert guest.counted(driver, [unit], "getppid", CALLS) == [CALLS]


def test_a_counter_out_of_reach_of_a_short_address_counts(
    guest: Guest, driver: Driver, bench: Bench, parent: Function
) -> None:
    blocks = driver.counters(driver.hello.fast_counters + 1)
    assert not blocks[-1].near
    unit = bench.before(parent, parent.window(5, several=True), count_far(blocks[-1].gs))
    driver.apply([unit])
    guest.call("getppid", CALLS)
    assert driver.read(blocks[-1].first, 1) == [CALLS]
    assert driver.read(0, 1) == [0]


def test_counters_are_kept_by_processor(guest: Guest, driver: Driver, bench: Bench, parent: Function) -> None:
    block = driver.counters(1)[0]
    driver.apply([bench.before(parent, parent.window(5, several=False), count(block.gs))])
    guest.call("getppid", CALLS, threads=4)
    each = [driver.read(0, 1, cpu)[0] for cpu in range(driver.hello.cpus)]
    assert sum(each) == driver.read(0, 1)[0] == 4 * CALLS


def test_a_retargeted_call_counts(guest: Guest, driver: Driver, bench: Bench, parent: Function) -> None:
    block = driver.counters(1)[0]
    call = parent.find(is_call)
    hook = count(block.gs)
    patch = bench.put(hook + jump(bench.next + len(hook), call.near_branch_target))
    new = b"\xe8" + jump(call.ip, patch)[1:]
    unit = DriverUnit(next(bench.numbers), DriverUnitKind.SINGLE, call.ip, patch, parent.bytes_of(call), new)
    assert guest.counted(driver, [unit], "getppid", CALLS) == [CALLS]


def test_a_splice_at_a_return_counts(guest: Guest, driver: Driver, bench: Bench, parent: Function) -> None:
    block = driver.counters(1)[0]
    address, old = parent.ret
    unit = bench.splice(address, old, count(block.gs), several=False)
    assert guest.counted(driver, [unit], "getppid", CALLS) == [CALLS]


def test_a_trap_counts(guest: Guest, driver: Driver, bench: Bench, parent: Function) -> None:
    block = driver.counters(1)[0]
    run = parent.window(1, several=False)
    old = parent.bytes_of(*run)
    patch, copy = bench.moved(count(block.gs), old, run[0].ip + len(old))
    unit = DriverUnit(next(bench.numbers), DriverUnitKind.TRAP, run[0].ip, patch, old, b"\xcc" + old[1:], copy)
    before = driver.status().traps
    assert guest.counted(driver, [unit], "getppid", CALLS) == [CALLS]
    assert driver.status().traps - before == CALLS


@pytest.mark.stock
def test_a_bounce_in_bytes_freed_by_another_unit_counts(
    guest: Guest, driver: Driver, bench: Bench, parent: Function
) -> None:
    block = driver.counters(2)[0]
    host = bench.before(parent, parent.window(10, several=True), count(block.offset(0)))
    address, old = parent.ret
    patch, copy = bench.moved(count(block.offset(1)), old[:1], address + 1)
    pad_at = host.address + 5
    pad = DriverUnit(next(bench.numbers), DriverUnitKind.PAD, pad_at, patch, host.new[5:10], jump(pad_at, patch))
    short = bytes([0xEB, pad_at - (address + 2) & 0xFF])
    bounce = DriverUnit(next(bench.numbers), DriverUnitKind.SHORT, address, patch, old[:2], short, copy, pad=pad.number)
    assert guest.counted(driver, [host, pad, bounce], "getppid", CALLS) == [CALLS, CALLS]


def test_fentry_goes_through_ftrace(guest: Guest, driver: Driver, bench: Bench, parent: Function) -> None:
    block = driver.counters(1)[0]
    patch = bench.put(count(block.gs) + b"\xc3")
    unit = DriverUnit(next(bench.numbers), DriverUnitKind.FENTRY, parent.address, patch)
    assert guest.counted(driver, [unit], "getppid", CALLS) == [CALLS]


def test_functions_in_one_message_go_to_their_own_patches(guest: Guest, driver: Driver, bench: Bench) -> None:
    """Taking out some of them leaves the others in place."""
    names = ("getppid", "getpgrp", "getuid", "geteuid")
    block = driver.counters(len(names))[0]
    patches = [bench.put(count(block.offset(i)) + b"\xc3") for i in range(len(names))]
    places = [guest.symbols[f"__x64_sys_{name}"] for name in names]
    units = [
        DriverUnit(i + 1, DriverUnitKind.FENTRY, at, patch)
        for i, (at, patch) in enumerate(zip(places, patches, strict=True))
    ]

    def hits() -> list[int]:
        before = driver.read(0, len(names))
        for i, name in enumerate(names):
            guest.call(name, 10 * (i + 1))
        return [b - a for a, b in zip(before, driver.read(0, len(names)), strict=True)]

    with guest.text_untouched():
        assert [each.verdict for each in driver.apply(units)] == [Verdict.OK] * len(units)
        assert hits() == [10, 20, 30, 40]
        assert [each.verdict for each in driver.undo([2, 3])] == [Verdict.OK] * 2
        assert guest.text(places[1], 5) == guest.text(places[2], 5) != guest.text(places[0], 5)
        assert hits() == [10, 0, 0, 40]
        assert [each.verdict for each in driver.apply([units[1]])] == [Verdict.OK]
        assert hits() == [10, 20, 0, 40]
        driver.undo_all()
    assert hits() == [0, 0, 0, 0]


@pytest.mark.stock
def test_units_of_all_kinds_in_one_message_count(guest: Guest, driver: Driver, bench: Bench) -> None:
    """Several functions, each in two ways, are in one message."""
    units, calls = [], ("getppid", "getpgrp", "getuid", "geteuid", "getgid", "getegid")
    block = driver.counters(len(calls))[0]
    for i, name in enumerate(calls):
        function = guest.function(f"__x64_sys_{name}")
        units.append(bench.before(function, function.window(5, several=False), count(block.offset(i))))
    assert [each.verdict for each in driver.apply(units)] == [Verdict.OK] * len(units)
    before = driver.read(0, len(calls))
    for i, name in enumerate(calls):
        guest.call(name, 10 * (i + 1))
    after = driver.read(0, len(calls))
    assert [b - a for a, b in zip(before, after, strict=True)] == [10, 20, 30, 40, 50, 60]


def test_closing_the_device_undoes_all_units(guest: Guest, parent: Function) -> None:
    with guest.text_untouched():
        driver = Driver(guest.link)
        bench = Bench(driver)
        block = driver.counters(1)[0]
        unit = bench.before(parent, parent.window(5, several=True), count(block.gs))
        assert driver.apply([unit])[0].verdict == Verdict.OK
        assert guest.text(unit.address, len(unit.new)) == unit.new
        guest.link.close_driver()


def test_the_module_cannot_be_unloaded_while_a_client_is_connected(guest: Guest, driver: Driver) -> None:
    status, _, _ = guest.link.run(["rmmod", "ilk"])
    assert status != 0
    assert driver.status().clients == 1


def test_the_kernel_text_is_what_it_was(guest: Guest) -> None:
    """This test runs after all the above. Static keys of this boot have settled by the start."""
    assert [hex(each) for each in guest.changed()] == []


@pytest.mark.stock
def test_the_kernel_has_no_complaint_and_no_taint(guest: Guest) -> None:
    assert guest.run("cat", "/proc/sys/kernel/tainted") == "12288"
    assert guest.complaints() == ""


def test_messages_without_a_driver_raise_a_named_error(guest: Guest) -> None:
    class Nothing:
        def open_driver(self) -> None:
            raise FileNotFoundError(2, "No such file or directory")

        def control(self, request: int, payload: bytes) -> bytes:
            raise AssertionError

        def lend(self, request: int, payload: bytes, place: int, path: str) -> bytes:
            raise AssertionError

        def controls(self, request: int, payloads: Sequence[bytes]) -> list[bytes]:
            raise AssertionError

        def drain(self, most: int) -> bytes:
            raise AssertionError

    with pytest.raises(TargetError) as caught:
        Driver(Nothing())
    assert caught.value.slug == "driver-not-loaded"
