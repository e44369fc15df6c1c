# SPDX-License-Identifier: LGPL-2.1-or-later
"""Samples of a kernel and of other targets are on one time line."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gilk.cache.place import cache_dir, kernels_dir
from gilk.session.kernel_session import KernelSession
from gilk.targets.kernel.target import KernelTarget
from gilk.trace.reading import read
from tests.kernel.driver.driving import Guest

CALLS = 10
ALIGNED = 50_000_000  # ns by which the clocks of two machines may differ: a busy machine reads them slowly
#: Calls a function of its own, with room for a jump, and then makes a system call, again and again.
TURNS = r"""
#include <unistd.h>
__attribute__((noinline)) void marked(void) { __asm__ volatile("nop; nop; nop; nop; nop"); }
int main(void)
{
	for (int i = 0; i < 200; i++) {
		marked();
		getsid(0);
	}
	return 0;
}
"""
SLEEPS = 10
#: Sleeps on a processor that its child keeps busy.
WAITS = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
int main(void)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof one, &one);
	int child = fork();
	if (!child)
		for (;;)
			;
	for (int i = 0; i < SLEEPS; i++)
		nanosleep(&(struct timespec){0, 100000000}, 0);
	kill(child, SIGKILL);
	return 0;
}
"""
ROOT = Path(__file__).parents[3]


def test_times_of_another_machines_kernel_are_converted_to_local_time(
    session: KernelSession, guest: Guest, calls: Path
) -> None:
    """An event there between two readings of this machine's clock has a time between these."""
    zero = time.monotonic_ns()
    session.align(zero, session.clock)
    session.insert("kernel:__x64_sys_getpgid:entry", "stamp")
    before = time.monotonic_ns()
    guest.run(str(calls), str(CALLS))
    after = time.monotonic_ns()
    times = session.close()["time"].to_pylist()
    assert len(times) == CALLS
    assert before - zero - ALIGNED < min(times) <= max(times) < after - zero + ALIGNED
    assert session.began == pytest.approx(zero, abs=ALIGNED)


@pytest.mark.stress
def test_events_of_a_process_and_its_kernel_are_in_order(kernel: KernelTarget, guest: Guest, exchange: Path) -> None:
    """gilk runs in the virtual machine, with both as its targets. They use one counter, so their samples strictly
    alternate."""
    program, samples = compiled(exchange / "turns", TURNS), exchange / "turns.parquet"
    points = ["-i", "marked:entry=stamp", "-i", "kernel:__x64_sys_getsid:entry=args"]
    there(guest, "run", *points, "-o", str(samples), "--", str(program))
    names = [row["function"] for row in read(samples).samples.to_pylist() if row["thread"] == "turns"]
    assert names == ["marked", "__x64_sys_getsid"] * 200


@pytest.mark.stress
def test_interrupts_during_another_process_are_recorded(kernel: KernelTarget, guest: Guest, exchange: Path) -> None:
    """The event that a sleeping program waits for comes while another has its processor: only --kernel=irq shows it."""
    program, trace = compiled(exchange / "waits", WAITS), exchange / "waits.parquet"
    wanted = ["--kernel=*hrtimer_interrupt", "--kernel=hrtimer_wakeup", "--kernel=__x64_sys_*nanosleep"]
    found = {}
    for name, more in (("alone", []), ("irq", ["--kernel=irq"])):
        there(guest, "trace", *wanted, *more, "--scope", "waits:", "-o", str(trace), "--", str(program))
        found[name] = read(trace).flow.table.to_pylist()
    sleeps = [row for row in found["irq"] if row["function"].endswith("nanosleep") and row["tid"] > 0]
    assert len(sleeps) >= SLEEPS
    assert not [row for row in found["alone"] if row["tid"] < 0]
    wakes = sorted(row["start"] for row in found["irq"] if row["tid"] < 0 and row["function"] == "hrtimer_wakeup")
    for sleep in sleeps:
        assert any(sleep["start"] < wake < sleep["start"] + sleep["duration"] for wake in wakes)


def compiled(path: Path, source: str) -> Path:
    words = ["cc", "-O1", "-static", f"-DSLEEPS={SLEEPS}", "-x", "c", "-", "-o", path]
    subprocess.run(words, input=source, text=True, check=True)
    return path


def there(guest: Guest, *words: str) -> None:
    """Run gilk in the virtual machine."""
    guest.link.close_driver()
    settings = {
        "PYTHONPATH": ROOT / "src",
        "GILK_CACHE": cache_dir(),
        "GILK_KERNELS": kernels_dir(),
        "PATH": os.environ["PATH"],
    }
    prefix = ["env", *(f"{name}={value}" for name, value in settings.items()), sys.executable, "-m", "gilk"]
    status, _, said = guest.vm.run([*prefix, *words], timeout=3000)
    assert status == 0, said.decode()
