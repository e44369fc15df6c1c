# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tells whether a process executes the program that it executed before, and what to say if it does not."""

from __future__ import annotations

from gilk.errors import TargetError
from gilk.targets.alive import has_ended, of_memory
from gilk.targets.stat import STACK_START, START_TIME, stat_of
from gilk.values import dataclass

_HINT = "with --follow, gilk run, trace and dtrace instrument each program that it executes"


@dataclass(frozen=True, slots=True)
class ProgramStart:
    """The start of a ``process``, by the kernel's clock, and of its ``program``: the address where its stack begins.

    That address is another for each program only where addresses are randomised. All is 0 for a process that has ended.
    """

    process: int = 0
    program: int = 0


def began_of(pid: int) -> ProgramStart:
    try:
        started = stat_of(pid)[START_TIME]
        return ProgramStart(int(started), of_memory(pid, lambda tid: int(stat_of(tid)[STACK_START])))
    except OSError:
        return ProgramStart()


def program_gone(pid: int) -> TargetError:
    """The error to raise when the program that gilk has looked at is no longer executed."""
    if not has_ended(pid):
        return TargetError("no-such-process", f"process {pid} has executed another program meanwhile", _HINT)
    return TargetError("no-such-process", f"process {pid} has ended")
