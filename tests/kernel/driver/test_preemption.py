# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tasks are preempted within a window, or within a patch, while splices come and go.

An emulated processor takes interrupts only between blocks of code, unless it is made to stop at every instruction,
without which these tests would show nothing. The negative control proves that they do show something: with the wait
before the jumps left out, the same load brings the kernel down.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gilk.errors import TargetError
from gilk.lab import Machine, boot
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import DriverUnit, Verdict
from tests.kernel.driver.driving import Guest
from tests.kernel.driver.handmade import Bench, Function, count

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.stress, pytest.mark.timeout(1800)]
STRICT = "oops=panic panic_on_warn=1 preempt=full"
ON_THE_WAY = ("__x64_sys_getppid", "__task_pid_nr_ns")
TASKS, YIELD = "8", "2"  # a grace period ends when each has let others run, and traps are slow
ROUNDS = 20


@contextmanager
def loaded(place: Path, *parameters: str) -> Iterator[tuple[Guest, list[Function]]]:
    """A machine of its own, fully preemptible, stopped at every instruction, with many tasks making one call."""
    with boot(Machine(cpus=1, arguments=STRICT)) as vm:
        guest = Guest(vm, place)
        guest.load(*parameters)
        functions = [guest.function(name) for name in ON_THE_WAY]
        vm.monitor("singlestep on")
        calls = ["nice", "-n", "19", str(guest.program), "110", "1000000000", TASKS, YIELD]
        guest.link.spawn(calls, lambda _: None, lambda _: None)
        yield guest, functions


def splices(functions: list[Function], driver: Driver, bench: Bench) -> list[DriverUnit]:
    runs = [(function, run) for function in functions for run in function.windows()]
    block = driver.counters(len(runs))[0]
    hooks = (b"\x9c" + count(block.offset(i)) + b"\x9d" for i in range(len(runs)))  # the flags may be live
    return [bench.trapping(bench.before(*each, hook)) for each, hook in zip(runs, hooks, strict=True)]


def come_and_go(guest: Guest, functions: list[Function], rounds: int) -> None:
    """Let a client come and go in each round: when it goes, its splices and then the memory of its patches go at
    once."""
    for _ in range(rounds):
        driver = Driver(guest.link)
        units = splices(functions, driver, Bench(driver))
        assert len(units) >= 4
        assert {each.verdict for each in driver.apply(units)} == {Verdict.OK}
        guest.link.close_driver()


def test_splices_come_and_go_under_preempted_tasks(tmp_path: Path) -> None:
    with loaded(tmp_path) as (guest, functions):
        before = guest.text_at_start
        come_and_go(guest, functions, ROUNDS)
        assert guest.whole_text() == before
        assert guest.complaints() == ""


def test_without_waiting_for_tasks_before_a_jump_the_kernel_crashes(tmp_path: Path) -> None:
    with pytest.raises(TargetError) as caught, loaded(tmp_path, "omit=1") as (guest, functions):
        come_and_go(guest, functions, 4 * ROUNDS)
    assert caught.value.slug == "lab-panic"
