# SPDX-License-Identifier: LGPL-2.1-or-later
"""Clients are killed at any moment, with their splices in functions that everyone calls: everything is undone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import Verdict
from gilk.toolchain.compilers import NATIVE
from tests.kernel.driver.driving import Guest
from tests.kernel.driver.handmade import Bench
from tests.kernel.endurance.load import STRESSORS, stressed

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.stress]
SOURCE = Path(__file__).parent / "guest" / "killed.c"
#: Functions that no other function jumps into, and that everything calls.
FUNCTIONS = (
    *("__x64_sys_getppid", "__task_pid_nr_ns", "__x64_sys_getpid", "__x64_sys_getuid", "__x64_sys_sched_yield"),
    *("pid_vnr", "fdget_pos", "__fdget_pos", "__x64_sys_read", "__x64_sys_write", "ksys_read", "ksys_write"),
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("killed") / "killed"
    subprocess.run(["cc", "-O2", "-static", "-I", NATIVE / "abi", "-o", path, SOURCE], check=True)
    return path


def splices(guest: Guest) -> list[str]:
    """The arguments for the program: each place that the driver accepts, its kind, and its bytes."""
    functions = [guest.function(name) for name in FUNCTIONS if name in guest.symbols]
    bench = Bench(Driver(guest.link))
    units = [bench.before(function, run, b"") for function in functions for run in function.windows()]
    taken = {each.number for each in bench.driver.apply(units) if each.verdict == Verdict.OK}
    guest.link.close_driver()
    return [f"{unit.address:x}:{unit.kind}:{unit.old.hex()}" for unit in units if unit.number in taken]


def killed(guest: Guest, program: Path, seed: int, rounds: int) -> list[int]:
    """How often the client was killed while it set up, applied, had everything in force, and undid."""
    places = splices(guest)
    assert len(places) > 8
    command = [str(program), str(seed), str(rounds), *places]
    status, out, said = guest.vm.run(command, timeout=120 + 20 * rounds)
    assert status == 0, said.decode()
    return [int(word) for word in out.split()]


def test_a_client_may_be_killed_at_any_moment(guest: Guest, program: Path) -> None:
    with stressed(guest, ["pipe"]):
        assert sum(killed(guest, program, 1, 8)) == 8


@pytest.mark.stress
@pytest.mark.timeout(7200)
def test_clients_may_be_killed_at_every_moment(guest: Guest, program: Path) -> None:
    with stressed(guest, STRESSORS[:6]):
        _, *busy = killed(guest, program, 2, 200)
    assert min(busy) > 5, busy
