# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tells whether a process stands still: a signal has stopped it, or a debugger."""

from __future__ import annotations

from typing import Final

from gilk.targets import ptrace
from gilk.targets.alive import of_memory
from gilk.targets.program import name_of
from gilk.targets.stat import STATE, stat_of
from gilk.targets.status import status_of
from gilk.targets.tracers import only_keepers
from gilk.values import dataclass

_STOPPED: Final = b"T"
_TRACED: Final = b"t"
_ENDED: Final = (b"Z", b"X")


@dataclass(frozen=True, slots=True)
class StandingStill:
    """A process that executes nothing for now. ``tracer``: the debugger that has stopped it, 0 if a signal has (or a
    process of another container); ``name``: the debugger's name, '' if there is none.
    """

    tracer: int = 0
    name: str = ""


def standing_still(pid: int) -> StandingStill | None:
    """Why a process stands still. None if any of its threads can go on, if it has ended, and while a keeper holds it,
    which is done with it in a moment.
    """
    try:
        status = of_memory(pid, status_of)
        if status[b"State"][:1] not in (_STOPPED, _TRACED) or not all(
            _is_still(pid, t) for t in ptrace.thread_ids(pid)
        ):
            return None
        tracer = int(status[b"TracerPid"])
        if tracer and only_keepers(pid):
            return None
        return StandingStill(tracer, name_of(tracer) if tracer else "")
    except (OSError, KeyError):
        return None  # the process has ended, or its tracer


def _is_still(pid: int, tid: int) -> bool:
    """Whether a thread is stopped, or has ended."""
    return stat_of(pid, tid)[STATE] in (_STOPPED, _TRACED, *_ENDED)
