# SPDX-License-Identifier: LGPL-2.1-or-later
"""Others that change code at the same places: kprobes, ftrace, static keys, modules and processors that go."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import DriverUnit, DriverUnitKind, Verdict
from tests.kernel.driver.driving import Guest
from tests.kernel.driver.handmade import Bench, Function, count
from tests.seldom import seldom

pytestmark = pytest.mark.xdist_group("lab")
TRACING = "/sys/kernel/tracing"
MODULE, MODULE_FUNCTION = "dummy", "dummy_setup"


@pytest.fixture
def unit(guest: Guest, driver: Driver, bench: Bench) -> DriverUnit:
    """A unit that counts before one instruction of getppid."""
    function = guest.function("__x64_sys_getppid")
    return bench.before(function, function.window(5, several=False), count(driver.counters(1)[0].gs))


@contextmanager
def registered(guest: Guest, address: int) -> Iterator[None]:
    """A kprobe that is registered but not enabled: it has its copy of the instruction, and the text shows nothing of
    it."""
    offset = address - guest.symbols["__x64_sys_getppid"]
    guest.write(f"{TRACING}/kprobe_events", f"p:gilktest __x64_sys_getppid+{offset}")
    try:
        yield
    finally:
        guest.write(f"{TRACING}/kprobe_events", "-:gilktest")


@contextmanager
def in_force(guest: Guest) -> Iterator[None]:
    guest.write(f"{TRACING}/events/kprobes/gilktest/enable", "1")
    try:
        yield
    finally:
        guest.write(f"{TRACING}/events/kprobes/gilktest/enable", "0")


@contextmanager
def kprobe(guest: Guest, address: int) -> Iterator[None]:
    with registered(guest, address), in_force(guest):
        yield


def kprobe_hits(guest: Guest) -> int:
    rows = guest.link.read_file(f"{TRACING}/kprobe_profile").decode().split()
    return int(rows[rows.index("gilktest") + 1])


def verdicts(outcomes: list[object]) -> list[Verdict]:
    return [each.verdict for each in outcomes]


@pytest.fixture(autouse=True)
def clean(guest: Guest) -> Iterator[None]:
    guest.mount("tracefs", TRACING)
    yield
    assert guest.complaints() == ""


def test_a_place_with_an_earlier_kprobe_is_refused(guest: Guest, driver: Driver, unit: DriverUnit) -> None:
    with kprobe(guest, unit.address):
        outcome = driver.apply([unit])[0]
        assert (outcome.verdict, outcome.detail) == (Verdict.KPROBE, unit.address)
    assert guest.counted(driver, [unit], "getppid", 100) == [100]


def test_a_window_with_a_kprobe_inside_is_refused(guest: Guest, driver: Driver, bench: Bench) -> None:
    function = guest.function("__x64_sys_getppid")
    run = function.window(10, several=True)
    unit = bench.before(function, run, b"")
    with kprobe(guest, run[1].ip):
        assert driver.apply([unit])[0].verdict == Verdict.KPROBE


def test_a_kprobe_placed_over_a_splice_works(guest: Guest, driver: Driver, unit: DriverUnit) -> None:
    """Both count; the splice cannot be undone before the kprobe is gone."""
    with guest.text_untouched():
        driver.apply([unit])
        with kprobe(guest, unit.address):
            guest.call("getppid", 100)
            assert driver.read(0, 1) == [100] and kprobe_hits(guest) == 100
            assert driver.undo([unit.number])[0].verdict == Verdict.BUSY
            guest.call("getppid", 100)
            assert driver.read(0, 1) == [200] and kprobe_hits(guest) == 200
        assert driver.undo([unit.number])[0].verdict == Verdict.OK


@pytest.mark.stress
def test_a_place_with_a_disabled_kprobe_is_refused(guest: Guest, driver: Driver, unit: DriverUnit) -> None:
    with registered(guest, unit.address):
        outcome = driver.apply([unit])[0]
        assert (outcome.verdict, outcome.detail) == (Verdict.KPROBE, unit.address)
        with in_force(guest):
            guest.call("getppid", 100)
            assert kprobe_hits(guest) == 100
    assert guest.counted(driver, [unit], "getppid", 100) == [100]


@pytest.mark.parametrize("several", seldom([True, False], 1))
def test_a_disabled_kprobe_over_a_splice_works_when_enabled(
    guest: Guest, driver: Driver, bench: Bench, several: bool
) -> None:
    """The kprobe copies the splice's jump as its instruction, and follows it once it is enabled, whatever is there
    by then."""
    function = guest.function("__x64_sys_getppid")
    unit = bench.before(function, function.window(5, several), count(driver.counters(1)[0].gs))
    with guest.text_untouched():
        driver.apply([unit])
        spliced = guest.text(unit.address, len(unit.old))
        with registered(guest, unit.address):
            for turn in (1, 2):
                assert driver.undo([unit.number])[0].verdict == Verdict.BUSY
                assert guest.text(unit.address, len(unit.old)) == spliced
                with in_force(guest):
                    guest.call("getppid", 100)
                    assert driver.read(0, 1) == [100 * turn] and kprobe_hits(guest) == 100 * turn
        assert driver.undo([unit.number])[0].verdict == Verdict.OK
        guest.call("getppid", 1000, threads=4)
    assert driver.read(0, 1) == [200]


@pytest.mark.stress
def test_a_splice_below_a_disabled_kprobe_outlives_its_client(guest: Guest, driver: Driver, unit: DriverUnit) -> None:
    with guest.text_untouched():
        driver.apply([unit])
        with registered(guest, unit.address):
            guest.link.close_driver()
            guest.link.open_driver()
            assert driver.status().orphans == 1
            with in_force(guest):
                guest.call("getppid", 100)
                assert kprobe_hits(guest) == 100
        until_nothing_is_left(guest, driver)
        guest.call("getppid", 1000, threads=4)


def until_nothing_is_left(guest: Guest, driver: Driver) -> None:
    limit = time.monotonic() + 60
    while driver.status().orphans and time.monotonic() < limit:
        guest.call("getppid", 10)
    assert driver.status().orphans == 0 and driver.status().units == 0


def test_a_splice_below_a_kprobe_outlives_its_client(guest: Guest, driver: Driver, unit: DriverUnit) -> None:
    with guest.text_untouched():
        driver.apply([unit])
        with kprobe(guest, unit.address):
            guest.link.close_driver()
            guest.link.open_driver()
            assert driver.status().orphans == 1
            guest.call("getppid", 100)
        until_nothing_is_left(guest, driver)


def test_a_unit_and_the_function_tracer_share_a_function(guest: Guest, driver: Driver, bench: Bench) -> None:
    address = guest.symbols["__x64_sys_getppid"]
    unit = DriverUnit(1, DriverUnitKind.FENTRY, address, bench.put(count(driver.counters(1)[0].gs) + b"\xc3"))
    guest.write(f"{TRACING}/set_ftrace_filter", "__do_sys_getppid")
    with guest.text_untouched():
        assert driver.apply([unit])[0].verdict == Verdict.OK
        guest.call("getppid", 50)
        guest.write(f"{TRACING}/current_tracer", "function")
        guest.call("getppid", 50)
        traced = guest.link.read_file(f"{TRACING}/trace").decode().count("__do_sys_getppid")
        assert driver.undo([1])[0].verdict == Verdict.OK
        guest.call("getppid", 50)
        guest.write(f"{TRACING}/current_tracer", "nop")
    guest.write(f"{TRACING}/set_ftrace_filter", "")
    assert driver.read(0, 1) == [100] and traced == 50


def test_static_keys_flip_while_splices_come_and_go(guest: Guest, driver: Driver, unit: DriverUnit) -> None:
    with guest.text_untouched():
        for turn in range(6):
            assert driver.apply([unit])[0].verdict == Verdict.OK
            guest.write("/proc/sys/kernel/sched_schedstats", str(1 - turn % 2))
            guest.call("getppid", 10)
            assert driver.undo([unit.number])[0].verdict == Verdict.OK
    assert driver.read(0, 1) == [60]


def test_unloading_a_module_removes_its_units(guest: Guest, driver: Driver, bench: Bench) -> None:
    guest.run("modprobe", MODULE)
    before = guest.module_symbol(MODULE_FUNCTION)
    assert before
    function = Function.read(guest.text, before)
    block = driver.counters(2)[0]
    spliced = bench.before(function, function.window(5, several=True), count(block.offset(0)))
    fentry = DriverUnit(77, DriverUnitKind.FENTRY, before, bench.put(count(block.offset(1)) + b"\xc3"))
    assert verdicts(driver.apply([spliced, fentry])) == [Verdict.OK] * 2
    guest.run("rmmod", MODULE)
    assert driver.status().own_units == 2
    assert verdicts(driver.undo([spliced.number, 77])) == [Verdict.GONE] * 2
    guest.run("modprobe", MODULE)
    assert Function.read(guest.text, guest.module_symbol(MODULE_FUNCTION)).code[:64] == function.code[:64]
    if guest.module_symbol(MODULE_FUNCTION) == before:
        assert verdicts(driver.apply([replace(spliced, number=78)])) == [Verdict.OK]
    guest.run("rmmod", MODULE)


@pytest.mark.stress
def test_a_module_can_be_unloaded_after_its_units_are_gone(guest: Guest, driver: Driver, bench: Bench) -> None:
    guest.run("modprobe", MODULE)
    function = Function.read(guest.text, guest.module_symbol(MODULE_FUNCTION))
    unit = bench.before(function, function.window(5, several=True), b"")
    assert driver.apply([unit])[0].verdict == Verdict.OK
    assert driver.undo([unit.number])[0].verdict == Verdict.OK
    guest.run("rmmod", MODULE)


def test_units_work_while_a_processor_goes_and_comes_back(guest: Guest, driver: Driver, unit: DriverUnit) -> None:
    with guest.text_untouched():
        driver.apply([unit])
        guest.call("getppid", 100, threads=4)
        guest.write("/sys/devices/system/cpu/cpu1/online", "0")
        guest.call("getppid", 100, threads=4)
        assert driver.undo([unit.number])[0].verdict == Verdict.OK
        assert driver.apply([unit])[0].verdict == Verdict.OK
        guest.write("/sys/devices/system/cpu/cpu1/online", "1")
        guest.call("getppid", 100, threads=4)
        driver.undo_all()
    assert driver.read(0, 1) == [1200]
