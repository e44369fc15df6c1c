# SPDX-License-Identifier: LGPL-2.1-or-later
"""Points at everything at once: all entries, all blocks of a subsystem, all blocks of the kernel.

The test prints what it takes, and asserts that the kernel goes on, counts, and is afterwards what it was.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gilk.session.kernel_session import KernelSession
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.endurance.turns import TURNS

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.stress, pytest.mark.timeout(4 * 3600)]
WORK = "ls -R /sys/kernel > /dev/null 2>&1; find /proc/self -maxdepth 2 > /dev/null 2>&1; cat /proc/meminfo"
#: Points, the least number of them, and the least number of those that the work above hits.
CASES = {
    "the entries of all functions": ("*:entry", 35_000, 1500),
    "all blocks of tcp": ("tcp_*:blocks", 4_000, 0),
    "all blocks of the file system layer": ("vfs_*:blocks", 500, 50),
}
WHOLE = ("*:blocks", 550_000, 15_000)


class Report:
    """The seconds and the memory that the parts of a test take."""

    def __init__(self, guest: Guest, name: str) -> None:
        self._guest, self.lines = guest, [name]
        self._free = self._available()

    @contextmanager
    def timed(self, what: str, points: int = 0) -> Iterator[None]:
        start = time.monotonic()
        yield
        seconds = time.monotonic() - start
        each = f", {1e6 * seconds / points:.0f} us a point" if points else ""
        self.lines.append(f"  {what}: {seconds:.1f} s{each}")

    def memory(self, driver: Driver) -> None:
        status, mine = driver.status(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        self.lines.append(
            f"  memory: the kernel's {(self._free - self._available()) >> 10} MiB, of it patches"
            f" {status.arena_bytes >> 20} MiB; the client's at most {mine} MiB"
        )

    def _available(self) -> int:
        """The available memory in KiB."""
        rows = self._guest.link.read_file("/proc/meminfo").decode().splitlines()
        return next(int(row.split()[1]) for row in rows if row.startswith("MemAvailable"))


@pytest.mark.parametrize("name", CASES)
def test_all_instruments_at_once_under_load(
    guest: Guest, kernel: KernelTarget, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        put_in_and_out(guest, kernel, name, *CASES[name])


@TURNS
def test_the_whole_kernel_is_instrumented_at_once(
    guest: Guest, kernel: KernelTarget, capsys: pytest.CaptureFixture[str]
) -> None:
    """This takes half an hour, in which QEMU's processors would starve each other if they ran at once."""
    with capsys.disabled():
        put_in_and_out(guest, kernel, "all blocks of the kernel", *WHOLE)


def put_in_and_out(guest: Guest, kernel: KernelTarget, name: str, points: str, least: int, hits: int) -> None:
    """Put the points in and out, and print what that takes. There must be at least ``least`` points, of which WORK
    hits at least ``hits``."""
    report = Report(guest, f"{name}: {points}")
    with KernelSession(kernel, points=1 << 20) as session:
        with report.timed("planned and inserted"):
            probes = session.insert(f"kernel:{points}", "count")
        assert len(probes) >= least
        activation = session.totals.activation
        report.lines.append(f"  of it activated: {activation:.1f} s, {1e6 * activation / len(probes):.0f} us a point")
        report.memory(session._driver)
        with report.timed("work meanwhile"):
            guest.run("sh", "-c", WORK)
        with report.timed("counters read"):
            counted = session.counts()
        assert sum(1 for value in counted.values() if value) >= hits
        report.lines.append(f"  {len(probes)} points: {session.tactics()}, refused {session.refusals()}")
        with report.timed("removed", len(probes)):
            session.close()
    guest.link.close_driver()
    print("", *report.lines, sep="\n")
    assert session.restored is True
