# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tells whether the tracers of a process are keepers, which are done with it in a moment."""

from __future__ import annotations

import os

from gilk.targets import ptrace
from gilk.targets.apart import KEEPER
from gilk.targets.program import name_of


def only_keepers(pid: int) -> bool:
    """Whether every process that traces a thread of ``pid``, besides this one, is a keeper, or has gone by now."""
    tracers = {ptrace.tracer_of(tid) for tid in ptrace.thread_ids(pid)} - {0, os.getpid()}
    return all(_is_keeper(tracer) for tracer in tracers)


def _is_keeper(pid: int) -> bool:
    try:
        return name_of(pid) == KEEPER
    except OSError:
        return True  # the tracer has gone
