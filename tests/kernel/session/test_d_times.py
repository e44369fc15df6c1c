# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processor time and ends of processes, as a kernel's D programs see them."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import pairwise

import pytest

from gilk.targets.kernel.target import KernelTarget
from tests.kernel.session.d_programs import ran

pytestmark = pytest.mark.xdist_group("lab")
ASKS = "import time\nfor _ in range(200): time.thread_time_ns(); sum(range(100))"
THREADS, TIMES = 40, 20
#: All threads of each child are asleep when it ends, and end at once, on all processors.
SLEEPERS = f"""
import os, threading
for _ in range({TIMES}):
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    stays = threading.Barrier({THREADS} + 1)
    for _ in range({THREADS}):
        threading.Thread(target=lambda: (stays.wait(), threading.Event().wait())).start()
    stays.wait()
    os._exit(3)"""


def test_vtimestamp_is_the_processor_time_that_the_kernel_tells_the_thread(kernel: KernelTarget) -> None:
    """It goes on between two ticks of the scheduler."""
    text = """
        syscall::clock_gettime:entry /pid == $target && arg0 == 3/ { self->to = arg1; self->before = vtimestamp; }
        syscall::clock_gettime:return /self->to/ {
            this->told = (uint64_t *)copyin(self->to, 16);
            printf("%d %d %d\\n", self->before, this->told[0] * 1000000000 + this->told[1], vtimestamp);
            self->to = 0;
        }"""
    done = ran(kernel, text, [sys.executable, "-c", ASKS])
    rows = [tuple(map(int, line.split())) for line in done.lines]
    assert len(rows) == 200 and all(before < told <= after for before, told, after in rows), rows
    assert all(after < following for (_, _, after), (following, _, _) in pairwise(rows))


def test_a_process_of_many_threads_exits_once(kernel: KernelTarget) -> None:
    text = """
        proc:::exit /ppid == $target/ { printf("process %d %d\\n", pid, args[0]); }
        proc:::lwp-exit /ppid == $target/ { printf("thread %d %d\\n", pid, tid); }"""
    done = ran(kernel, text, [sys.executable, "-c", SLEEPERS], bufsize="16m")
    processes, threads = Counter[str](), dict[str, set[str]]()
    for kind, pid, rest in map(str.split, done.lines):
        if kind == "process":
            processes[pid] += 1
            assert rest == "1"
        else:
            threads.setdefault(pid, set()).add(rest)
    assert Counter(map(len, threads.values())) == {THREADS + 1: TIMES}
    assert processes == dict.fromkeys(threads, 1)
