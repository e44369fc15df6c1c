# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernel's own live patches, of a function with points in it: each does its work, in whatever order they go.

A patched function does what the patch says. Its old body, with the points in it, is not run then; its entry belongs to
ftrace, and so to both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gilk.session.kernel_session import KernelSession
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.endurance.load import repeated, stressed
from tests.kernel.endurance.watch import LIVEPATCH, TAINT, Watch

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.stress]
NAME, FUNCTION = "gilk_test_livepatch", "cmdline_proc_show"
PATCHED = "gilk: patched"
LIMIT = 60.0  # seconds for all tasks to have changed over


@pytest.fixture(scope="module")
def module(guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return guest.module_of(Path(__file__).parent / "guest" / NAME, tmp_path_factory.mktemp("livepatch"))


def settled(guest: Guest) -> None:
    """Wait until no task is in transition from the one function to the other."""
    limit = time.monotonic() + LIMIT
    while guest.link.read_file(f"/sys/kernel/livepatch/{NAME}/transition") != b"0\n":
        assert time.monotonic() < limit, "the live patch does not settle"
        guest.run("sleep", "0.1")


@contextmanager
def patched(guest: Guest, module: Path) -> Iterator[None]:
    guest.run("insmod", str(module))
    settled(guest)
    try:
        yield
    finally:
        guest.run("sh", "-c", f"echo 0 > /sys/kernel/livepatch/{NAME}/enabled")
        limit = time.monotonic() + LIMIT
        while guest.vm.run(["rmmod", NAME])[0]:
            assert time.monotonic() < limit, "the live patch cannot be unloaded"


def reads(guest: Guest, times: int) -> set[str]:
    """Read /proc/cmdline so often. Returns which functions have answered: "patched", "original"."""
    found = guest.run("sh", "-c", f"for i in $(seq {times}); do cat /proc/cmdline; done")
    return {"patched" if line == PATCHED else "original" for line in found.splitlines()}


def test_a_live_patch_is_applied_over_points(guest: Guest, kernel: KernelTarget, module: Path, watch: Watch) -> None:
    with KernelSession(kernel, points=1 << 10) as session:
        (entry,) = session.insert(f"kernel:{FUNCTION}:entry", "count")
        inside = session.insert(f"kernel:{FUNCTION}:blocks", "count")
        assert entry.tactic is not None and any(probe.tactic is not None for probe in inside)
        assert reads(guest, 5) == {"original"}
        before = session.counts()
        assert before[entry.row.point] >= 5
        with patched(guest, module):
            assert reads(guest, 5) == {"patched"}
            session.remove(inside)
            assert reads(guest, 5) == {"patched"}
        assert reads(guest, 5) == {"original"}
    guest.link.close_driver()
    assert session.restored is True
    assert watch.taint() == TAINT | LIVEPATCH


def test_points_are_inserted_under_a_live_patch(guest: Guest, kernel: KernelTarget, module: Path) -> None:
    with patched(guest, module):
        with KernelSession(kernel, points=1 << 10) as session:
            session.insert(f"kernel:{FUNCTION}:blocks", "count")
            assert reads(guest, 5) == {"patched"}
            assert sum(session.counts().values()) == 0
        guest.link.close_driver()
        assert session.restored is True
        assert reads(guest, 5) == {"patched"}
    assert reads(guest, 5) == {"original"}


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_live_patches_and_points_come_and_go_for_long(guest: Guest, kernel: KernelTarget, module: Path) -> None:
    """Each comes and goes independently, while the function is called all the time."""
    turn = f"""
        insmod {module}
        while [ $(cat /sys/kernel/livepatch/{NAME}/transition) != 0 ]; do sleep 0.1; done
        echo 0 > /sys/kernel/livepatch/{NAME}/enabled
        while ! rmmod {NAME} 2>/dev/null; do sleep 0.1; done"""
    with (
        stressed(guest, ["pipe", "fork"]),
        repeated(guest, "reads", "cat /proc/cmdline > /dev/null"),
        repeated(guest, "patches", turn),
    ):
        for _ in range(20):
            with KernelSession(kernel, points=1 << 10) as session:
                session.insert(f"kernel:{FUNCTION}:entry", "count")
                session.insert(f"kernel:{FUNCTION}:blocks", "count")
                guest.run("sleep", "0.3")
            guest.link.close_driver()
            assert session.restored is True
    assert reads(guest, 5) == {"original"}
