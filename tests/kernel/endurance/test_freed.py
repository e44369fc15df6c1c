# SPDX-License-Identifier: LGPL-2.1-or-later
"""A task is preempted within a patch when its client goes: the patch stays until the task has left it.

The patch here is a long loop, and tasks only run through it, so that one is always inside. The negative control proves
that the wait for them is needed: without it, a task goes on in memory that was freed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gilk.errors import TargetError
from gilk.lab import Machine, boot
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import Verdict
from gilk.targets.kernel.link import RelayLink
from tests.kernel.driver.driving import NUMBERS, Guest
from tests.kernel.driver.handmade import Bench, count
from tests.kernel.endurance.conftest import STRICT

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.stress]
TURNS = 1 << 26  # of the loop: tenths of a second, which is many ticks
TASKS = "3"  # more than processors, so that some are always preempted
LIMIT = 60.0  # seconds
CALL = "getuid"  # in no RCU section: the driver always waits for RCU's readers


def lingering(counter: int, turns: int) -> bytes:
    """The code of pushfq; push %rcx; incq %gs:counter; mov $turns, %ecx; 1: dec %ecx; jnz 1b; pop %rcx; popfq."""
    return b"\x9c\x51" + count(counter) + b"\xb9" + turns.to_bytes(4, "little") + bytes.fromhex("ffc975fc599d")


def linger(guest: Guest) -> int:
    """Have tasks go through a patch until it is gone, while its client goes. Returns how many have been in it."""
    driver = Driver(guest.link)
    function = guest.function(f"__x64_sys_{CALL}")
    run = function.window(5, several=False)
    unit = Bench(driver).before(function, run, lingering(driver.counters(1)[0].gs, TURNS))
    assert [each.verdict for each in driver.apply([unit])] == [Verdict.OK]
    calls = [str(guest.program), str(NUMBERS[CALL]), "4", TASKS]
    assert isinstance(guest.link, RelayLink)
    process = guest.link.spawn(calls, lambda _: None, lambda _: None)
    while (inside := driver.read(0, 1)[0]) < int(TASKS):
        assert process.wait(0.05) is None, "they did not go through the patch"
    guest.link.close_driver()
    assert process.wait(LIMIT) == 0
    return inside


def test_a_patch_stays_while_a_task_is_in_it(guest: Guest) -> None:
    for _ in range(3):
        assert linger(guest) >= int(TASKS)


def test_without_waiting_for_tasks_in_patches_the_kernel_crashes(tmp_path: Path) -> None:
    with pytest.raises(TargetError) as caught, boot(Machine(cpus=2, arguments=STRICT)) as vm:
        guest = Guest(vm, tmp_path)
        guest.load("omit=2")
        linger(guest)
    assert caught.value.slug == "lab-panic"
