# SPDX-License-Identifier: LGPL-2.1-or-later
"""Others that change code and processors, and points that come and go at the same functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from gilk.session.kernel_session import KernelSession
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.endurance.load import repeated

TRACING = "/sys/kernel/tracing"
#: Functions that all system calls of a load go through, or many of them.
FUNCTIONS = (
    "vfs_read", "vfs_write", "pipe_read", "pipe_write", "path_openat", "dput", "do_futex", "__task_pid_nr_ns",
    "copy_process", "unix_stream_sendmsg", "hrtimer_start_range_ns", "try_to_wake_up",
)  # fmt: skip
NAMES = " ".join(FUNCTIONS)
#: A turn of each changes something, and changes it back.
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
}


@contextmanager
def others(guest: Guest, which: Mapping[str, str]) -> Iterator[None]:
    with ExitStack() as stack:
        for name, script in which.items():
            stack.enter_context(repeated(guest, name, script))
        yield


def come_and_go(guest: Guest, kernel: KernelTarget, turns: int) -> int:
    """Let points at FUNCTIONS come and go. Returns the number of hits."""
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
