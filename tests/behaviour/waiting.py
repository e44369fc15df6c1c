# SPDX-License-Identifier: LGPL-2.1-or-later
"""Waiting for what programs do: for events, with a limit that no load uses up; a wait in vain says how they ended."""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
import subprocess
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 240  # seconds; pytest gives a test 300
NICE = 10
#: Those under test that live, or have ended while a test holds them.
programs: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """True once ``condition`` holds. Raises AssertionError when it does not within ``seconds``: what was waited for, and
    how the programs are that tests have started here, and those that the condition is about."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("\n".join([f"not within {seconds} s: {_written(condition)}", *_about(condition)]))
        time.sleep(0.01)
    return True


def ended(program: subprocess.Popen[Any]) -> str:
    """Whether it runs, or with what status or by which signal it has ended, as a line for whoever reads a failure."""
    status = program.poll()
    if status is None:
        how = f"runs, {state(program.pid)}, for {cpu(program.pid)} ticks"
    elif status < 0:
        how = f"was ended by {signal.Signals(-status).name}"
    else:
        how = f"has ended with status {status}"
    return f"process {program.pid} {how}: {program.args!r}"


def _about(condition: Callable[[], object]) -> list[str]:
    """What a function of a test has by name, and how the processes are that it asks, or that tests have started."""
    named = inspect.getclosurevars(condition).nonlocals if inspect.isfunction(condition) else {}
    asked = [each for each in named.values() if isinstance(each, subprocess.Popen)]
    about = {each.pid: ended(each) for each in (*programs, *asked)}
    return [*(f"{name} = {value!r:.300}" for name, value in named.items()), *about.values()]


def _written(condition: Callable[[], object]) -> str:
    """The lines of the test where the condition stands."""
    try:
        return inspect.getsource(condition).strip()
    except (TypeError, OSError):
        return repr(condition)


def give_way(pid: int) -> None:
    """Let all others go first, as its threads may keep each processor busy: who looks at it waits less for its turn."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            os.setpriority(os.PRIO_PROCESS, int(tid), min(os.getpriority(os.PRIO_PROCESS, int(tid)) + NICE, 19))


def state(pid: int) -> str:
    """R, S, T ... of /proc/PID/stat."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def cpu(pid: int) -> int:
    """Clock ticks the process has run for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
