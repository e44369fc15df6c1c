# SPDX-License-Identifier: LGPL-2.1-or-later
"""Kprobes come and go at the entries of the same functions as points, and inside them."""

from __future__ import annotations

import time

import pytest

from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import Verdict
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import NUMBERS, Guest
from tests.kernel.driver.handmade import Bench, Function, count
from tests.kernel.endurance.load import stressed
from tests.kernel.endurance.others import NAMES, OTHERS, TRACING, come_and_go, others
from tests.kernel.endurance.turns import TURNS

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.stress, TURNS]
SCRIPT = f"""
        cd {TRACING}
        for name in {NAMES}; do echo "p:gilkload/$name $name"; echo "r:gilkload/${{name}}_r $name"; done > kprobe_events
        echo 1 > events/gilkload/enable; sleep 0.1
        echo 0 > events/gilkload/enable; echo > kprobe_events"""


def test_kprobes_and_points_come_and_go_at_the_same_functions(guest: Guest, kernel: KernelTarget) -> None:
    with stressed(guest, ["pipe", "futex"]), others(guest, {"kprobes": SCRIPT}):
        assert come_and_go(guest, kernel, 4) > 0


@pytest.mark.timeout(7200)
def test_kprobes_and_others_come_and_go_beside_points_for_long(guest: Guest, kernel: KernelTarget) -> None:
    with stressed(guest), others(guest, OTHERS | {"kprobes": SCRIPT}):
        assert come_and_go(guest, kernel, 20) > 0


def taken(guest: Guest, function: Function, turns: int) -> set[Verdict]:
    """Let splices come and go in the middle of a function, where kprobes do too. Returns the driver's verdicts."""
    found: set[Verdict] = set()
    for _ in range(turns):
        driver = Driver(guest.link)
        bench, block = Bench(driver), driver.counters(64)[0]
        hooks = (b"\x9c" + count(block.offset(i)) + b"\x9d" for i in range(64))
        units = [bench.before(function, run, hook) for run, hook in zip(function.windows(), hooks, strict=False)]
        found |= {each.verdict for each in driver.apply(units)}
        guest.link.close_driver()
    return found


def until_all_is_undone(guest: Guest) -> None:
    """Wait until all splices are gone: one on which a kprobe sat when its client went goes when the kprobe does."""
    driver, limit = Driver(guest.link), time.monotonic() + 60
    while driver.status().units and time.monotonic() < limit:
        guest.call("getppid", 10)
    assert driver.status().units == 0
    guest.link.close_driver()


def kprobes_within(guest: Guest, turns: int) -> set[Verdict]:
    function = guest.function("__x64_sys_getppid")
    places = " ".join(f"+{run[0].ip - function.address}" for run in function.windows())
    # The kernel refuses a kprobe that would lie within one of the driver's jumps.
    script = f"""
        cd {TRACING}
        for at in {places}; do echo "p:gilkload/at_${{at#+}} __x64_sys_getppid$at" >> kprobe_events || true; done
        if [ -e events/gilkload ]; then
            echo 1 > events/gilkload/enable; sleep 0.15; echo 0 > events/gilkload/enable; echo > kprobe_events
        fi
        sleep 0.15"""
    calls = ["nice", "-n", "19", str(guest.program), str(NUMBERS["getppid"]), "1000000000", "2", "50"]
    process = guest.link.spawn(calls, lambda _: None, lambda _: None)
    try:
        with others(guest, {"within": script}):
            found = taken(guest, function, turns)
        until_all_is_undone(guest)
    finally:
        process.signal(15)
        process.wait(30)
    return found


#: Verdicts that may come, also about a splice of the turn before, which stays while a kprobe sits on it.
DUE = {Verdict.OK, Verdict.KPROBE, Verdict.STALE, Verdict.BUSY, Verdict.OVERLAP, Verdict.UNREAD}


def test_kprobes_come_and_go_within_instrumented_functions(guest: Guest) -> None:
    assert kprobes_within(guest, 4) <= DUE


@pytest.mark.timeout(3600)
def test_kprobes_come_and_go_within_instrumented_functions_for_long(guest: Guest) -> None:
    assert {Verdict.OK, Verdict.KPROBE} <= kprobes_within(guest, 100) <= DUE
