# SPDX-License-Identifier: LGPL-2.1-or-later
"""The stacks of a process's threads, as a dry run of `gilk weave` walks copies of them. gdb walks the same stacks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gilk.api.processes import hold
from gilk.engines.aspect.standing import stacks
from tests.behaviour.advised import build, rounds, waiting

pytestmark = pytest.mark.skipif(not shutil.which("gdb"), reason="needs gdb")
#: The thread waits in a signal handler on another stack, which has interrupted a function with a large frame.
HANDLED = """
#include <signal.h>
#include <stdlib.h>
NOINLINE long waiter(long n);
static volatile long passed;
static void handler(int number) { (void)number; passed = waiter(passed); }
NOINLINE long raised(long n) { char room[70]; __asm__ volatile("" : : "r"(room) : "memory"); raise(SIGUSR1); return n + room[0] * 0; }
NOINLINE long held(long n)
{
	stack_t other = { malloc(65536), 0, 65536 };
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
	passed = n;
	sigaltstack(&other, 0);
	sigaction(SIGUSR1, &action, 0);
	return raised(n) + passed;
}
"""
GDB = """
import gdb
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame, found = gdb.newest_frame(), []
    while frame is not None:
        found += [frame.pc()] * (frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME))
        frame = frame.older()
    print("STACK", thread.ptid[1], *found)
"""


def by_gdb(pid: int, place: Path) -> dict[int, list[int]]:
    """The address of each frame of each thread, innermost first."""
    script = place / "stacks.py"
    script.write_text(GDB)
    words = ["gdb", "-nx", "-batch", "-p", str(pid), "-ex", "set backtrace past-main on", "-x", str(script)]
    said = subprocess.run(words, capture_output=True, text=True, timeout=250).stdout
    rows = [line.split()[1:] for line in said.splitlines() if line.startswith("STACK")]
    return {int(tid): [int(one) for one in found] for tid, *found in rows}


def test_the_frames_of_all_threads_are_those_that_gdb_finds(tmp_path: Path) -> None:
    """Where a frame has called another, gdb has the return address, and gilk the address before it."""
    with rounds(build(tmp_path, waiting(HANDLED, "held", 5))) as target:
        assert target.ask() == "waits"
        (process,) = hold([target.pid], ())
        ours = stacks(process)
        process.keeper.leave()
        theirs = by_gdb(target.pid, tmp_path)
    assert ours.keys() == theirs.keys() and len(ours) == 2
    for tid, found in theirs.items():
        assert len(found) == len(ours[tid]), (found, ours[tid])
        assert all(one - own in (0, 1) for one, own in zip(found, ours[tid], strict=True)), (found, ours[tid])
