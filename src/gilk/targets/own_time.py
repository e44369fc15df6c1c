# SPDX-License-Identifier: LGPL-2.1-or-later
"""The processor time that gilk itself uses: this process, the processes that it has started, and gilk's helpers below
these. Programs that helpers launch, and virtual machines, are not gilk's own work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from gilk.targets.alive import cpu_time
from gilk.targets.apart import HELPERS
from gilk.targets.children import children
from gilk.targets.program import name_of


def own_time(starter: int = 0) -> float:
    """The processor time in seconds, in processes and in the kernel for them. It falls when a process has ended.
    ``starter``: a process that has started others for this one, 0 for none.
    """
    own = os.getpid()
    started = [*children(own), *(children(starter) if starter else ())]
    helpers = (pid for child in started for pid in _helpers(child))
    return sum(map(cpu_time, (own, *started, *helpers)))


def works(pid: int) -> Callable[[], bool]:
    """A function that says whether one of gilk's helpers, or a process that it has started, has used processor time
    since the last call. The first call is about the time from now on."""
    last = _spent(pid)

    def answer() -> bool:
        nonlocal last
        before, last = last, _spent(pid)
        return last != before

    return answer


def _spent(pid: int) -> float:
    return sum(map(cpu_time, (pid, *children(pid))))


def _helpers(pid: int) -> Iterator[int]:
    """The helpers below a process, at any depth as far as all between are helpers, too."""
    for child in children(pid):
        if _is_helper(child):
            yield child
            yield from _helpers(child)


def _is_helper(pid: int) -> bool:
    try:
        return name_of(pid) in HELPERS
    except OSError:
        return False
