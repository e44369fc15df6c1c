# SPDX-License-Identifier: LGPL-2.1-or-later
"""Wait for events in programs, with a generous limit. A wait in vain tells how the programs ended."""

from __future__ import annotations

import contextlib
import inspect
import math
import os
import signal
import subprocess
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 240  # seconds; pytest gives a test 300
NICE = 10  # for one thread
STEP = 1.25  # how many threads of a nice value weigh as much as one of the value before (sched(7))
#: The programs under test that run, or that a test still holds.
programs: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """True once ``condition`` holds. Raises AssertionError if it does not within ``seconds``; the message has the
    condition, and the state of the programs that tests have started and of those that the condition is about."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("\n".join([f"not within {seconds} s: {_written(condition)}", *_about(condition)]))
        time.sleep(0.01)
    return True


def ended(program: subprocess.Popen[Any]) -> str:
    """The state of a program as a line for a failure's message: running, or its exit status or signal."""
    status = program.poll()
    if status is None:
        how = f"runs, {state(program.pid)}, for {cpu(program.pid)} ticks"
    elif status < 0:
        how = f"was ended by {signal.Signals(-status).name}"
    else:
        how = f"has ended with status {status}"
    return f"process {program.pid} {how}: {program.args!r}"


def _about(condition: Callable[[], object]) -> list[str]:
    """The variables that the condition uses, and the state of the programs in them or started by tests."""
    named = inspect.getclosurevars(condition).nonlocals if inspect.isfunction(condition) else {}
    asked = [each for each in named.values() if isinstance(each, subprocess.Popen)]
    about = {each.pid: ended(each) for each in (*programs, *asked)}
    return [*(f"{name} = {value!r:.300}" for name, value in named.items()), *about.values()]


def _written(condition: Callable[[], object]) -> str:
    """The source lines of the condition."""
    try:
        return inspect.getsource(condition).strip()
    except (TypeError, OSError):
        return repr(condition)


def give_way(pid: int) -> None:
    """Lower the priority of a process, whose threads may keep each processor busy, so that observers wait less. All
    its threads together weigh as much as one of them would."""
    tids = os.listdir(f"/proc/{pid}/task")
    more = NICE + round(math.log(len(tids), STEP))
    for tid in map(int, tids):
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            os.setpriority(os.PRIO_PROCESS, tid, min(os.getpriority(os.PRIO_PROCESS, tid) + more, 19))


def state(pid: int) -> str:
    """The state of a process in /proc/PID/stat: R, S, T ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def cpu(pid: int) -> int:
    """The clock ticks of processor time that the process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
