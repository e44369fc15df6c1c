# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions come and go in ftrace's table of those with a direct call, while others look it up all the time.

The table is a hash with chains. On a machine that overwrites freed memory, a reader who is led through an entry that
was freed too early does not survive.
"""

from __future__ import annotations

import itertools

import pytest

from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import DriverUnit, DriverUnitKind, Verdict
from tests.kernel.driver.driving import NUMBERS, Guest
from tests.kernel.driver.handmade import Bench, count

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.stress]
TRACING = "/sys/kernel/tracing"
HOT, CALL = "__do_sys_getppid", "getppid"
GOLDEN_RATIO_64 = 0x61C8864680B583EB  # include/linux/hash.h
LEAST_BITS = 5  # of the table while it has few entries: kernel/trace/ftrace.c
NEIGHBOURS = 50


def chain(address: int) -> int:
    return (address * GOLDEN_RATIO_64 & (1 << 64) - 1) >> (64 - LEAST_BITS)


def neighbours(guest: Guest, hot: int) -> list[int]:
    """Functions in the same chain, behind which `hot` is found."""
    names = guest.link.read_file(f"{TRACING}/available_filter_functions").decode().splitlines()
    found = (guest.symbols.get(name.split()[0], 0) for name in names if "[" not in name and "xen" in name)
    same = (address for address in found if address and address != hot and chain(address) == chain(hot))
    return list(itertools.islice(same, NEIGHBOURS))


def come_and_go(guest: Guest, turns: int) -> int:
    """Let direct calls come and go. Returns how often the hot function was counted."""
    hot = guest.symbols[HOT]
    driver = Driver(guest.link)
    bench, block = Bench(driver), driver.counters(1)[0]
    patch, idle = bench.put(count(block.offset(0)) + b"\xc3"), bench.put(b"\xc3")
    assert driver.apply([DriverUnit(1, DriverUnitKind.FENTRY, hot, patch)])[0].verdict is Verdict.OK
    around = neighbours(guest, hot)
    assert len(around) > 10
    for _ in range(turns):
        units = [DriverUnit(number, DriverUnitKind.FENTRY, address, idle) for number, address in enumerate(around, 2)]
        assert {each.verdict for each in driver.apply(units)} == {Verdict.OK}
        assert {each.verdict for each in driver.undo([unit.number for unit in units])} == {Verdict.OK}
    hits = driver.read(0, 1)[0]
    guest.link.close_driver()
    return hits


def looked_up_all_the_time(guest: Guest, turns: int) -> None:
    """The function tracer is on the same function, so the kernel looks up the function's direct call."""
    guest.mount("tracefs", TRACING)
    guest.write(f"{TRACING}/set_ftrace_filter", HOT)
    guest.write(f"{TRACING}/current_tracer", "function")
    calls = ["nice", "-n", "19", str(guest.program), str(NUMBERS[CALL]), "1000000000", "2"]
    process = guest.link.spawn(calls, lambda _: None, lambda _: None)
    try:
        assert come_and_go(guest, turns) > 0
    finally:
        process.signal(15)
        process.wait(30)
        guest.write(f"{TRACING}/current_tracer", "nop")
        guest.run("sh", "-c", f"echo > {TRACING}/set_ftrace_filter; echo > {TRACING}/trace")


def test_ftraces_table_changes_while_it_is_looked_up(guest: Guest) -> None:
    looked_up_all_the_time(guest, 3)


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_ftraces_table_changes_while_it_is_looked_up_for_long(guest: Guest) -> None:
    looked_up_all_the_time(guest, 100)
