# SPDX-License-Identifier: LGPL-2.1-or-later
"""Others change code and processors at the same time, at the same functions, while points come and go there."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pytest

from gilk.session.kernel_session import KernelSession
from gilk.target.kernel.driver import Driver
from gilk.target.kernel.driver_abi import Verdict
from gilk.target.kernel.target import KernelTarget
from tests.kernel.driver.driving import NUMBERS, Guest
from tests.kernel.driver.handmade import Bench, Function, count
from tests.kernel.endurance.load import repeated, stressed

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.stress]
TRACING = "/sys/kernel/tracing"
#: What every system call of a load goes through, or many.
FUNCTIONS = (
    "vfs_read", "vfs_write", "pipe_read", "pipe_write", "path_openat", "dput", "do_futex", "__task_pid_nr_ns",
    "copy_process", "unix_stream_sendmsg", "hrtimer_start_range_ns", "try_to_wake_up",
)  # fmt: skip
NAMES = " ".join(FUNCTIONS)
#: One turn of each: it changes something, and changes it back.
OTHERS = {
    "processors": """
        cd /sys/devices/system/cpu/cpu1; echo 0 > online; sleep 0.1; echo 1 > online; sleep 0.1""",
    "keys": """
        cd /proc/sys/kernel
        for value in 1 0; do echo $value > sched_schedstats; echo $value > bpf_stats_enabled; sleep 0.05; done""",
    "ftrace": f"""
        cd {TRACING}
        for name in {NAMES}; do echo $name; done > set_ftrace_filter
        echo function > current_tracer; sleep 0.1
        echo nop > current_tracer; echo > set_ftrace_filter""",
    "graph": f"""
        mkdir {TRACING}/instances/gilk; cd {TRACING}/instances/gilk
        echo vfs_read > set_ftrace_filter; echo function > current_tracer; sleep 0.1
        echo nop > current_tracer; cd /; rmdir {TRACING}/instances/gilk""",
    "kprobes": f"""
        cd {TRACING}
        for name in {NAMES}; do echo "p:gilkload/$name $name"; echo "r:gilkload/${{name}}_r $name"; done > kprobe_events
        echo 1 > events/gilkload/enable; sleep 0.1
        echo 0 > events/gilkload/enable; echo > kprobe_events""",
}


@contextmanager
def others(guest: Guest, which: Mapping[str, str]) -> Iterator[None]:
    with ExitStack() as stack:
        for name, script in which.items():
            stack.enter_context(repeated(guest, name, script))
        yield


def come_and_go(guest: Guest, kernel: KernelTarget, turns: int) -> int:
    """Hits of all."""
    hits = 0
    for _ in range(turns):
        with KernelSession(kernel, points=1 << 14) as session:
            probes = [probe for name in FUNCTIONS for probe in session.insert(f"kernel:{name}:entry", "count")]
            assert all(probe.tactic is not None for probe in probes), session.refusals()
            session.insert("kernel:vfs_read:blocks", "count")
            session.insert("kernel:pipe_*:entry", "stamp")
            session.remove(probes[::2])
            session.poll()
            hits += sum(session.counts().values())
        guest.link.close_driver()
        assert session.restored is True
    return hits


#: In seconds; kprobes take grace periods of their own for each of two dozen, which makes it minutes.
FAST = ("processors", "keys", "ftrace")


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.stress) for name in OTHERS]
)
def test_others_come_and_go_too(guest: Guest, kernel: KernelTarget, name: str) -> None:
    with stressed(guest, ["pipe", "futex"]), others(guest, {name: OTHERS[name]}):
        assert come_and_go(guest, kernel, 1) > 0


@pytest.mark.stress
@pytest.mark.timeout(7200)
def test_all_of_them_at_once_for_long(guest: Guest, kernel: KernelTarget) -> None:
    with stressed(guest), others(guest, OTHERS):
        assert come_and_go(guest, kernel, 40) > 0


def taken(guest: Guest, function: Function, turns: int) -> set[Verdict]:
    """Splices come and go where kprobes do, in the midst of a function: what the driver says to them."""
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
    """Splices on which a kprobe sat when their client went go when it does."""
    driver, limit = Driver(guest.link), time.monotonic() + 60
    while driver.status().units and time.monotonic() < limit:
        guest.call("getppid", 10)
    assert driver.status().units == 0
    guest.link.close_driver()


def kprobes_within(guest: Guest, turns: int) -> set[Verdict]:
    function = guest.function("__x64_sys_getppid")
    places = " ".join(f"+{run[0].ip - function.address}" for run in function.windows())
    script = f"""
        cd {TRACING}
        for at in {places}; do echo "p:gilkload/at_${{at#+}} __x64_sys_getppid$at"; done > kprobe_events
        echo 1 > events/gilkload/enable; sleep 0.15
        echo 0 > events/gilkload/enable; echo > kprobe_events; sleep 0.15"""
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


def test_kprobes_within_the_same_function(guest: Guest) -> None:
    assert kprobes_within(guest, 4) <= {Verdict.OK, Verdict.KPROBE, Verdict.STALE, Verdict.BUSY}


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_kprobes_within_the_same_function_for_long(guest: Guest) -> None:
    found = kprobes_within(guest, 100)
    assert {Verdict.OK, Verdict.KPROBE} <= found <= {Verdict.OK, Verdict.KPROBE, Verdict.STALE, Verdict.BUSY}
