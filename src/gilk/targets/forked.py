# SPDX-License-Identifier: LGPL-2.1-or-later
"""Copies of this process, each with a pipe to it and one from it, and without its other descriptors."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from gilk.targets.apart import fork
from gilk.values import dataclass

_STANDARD: Final = 3  # streams, with the lowest numbers
_HIGHEST: Final = 1 << 16  # no descriptor has a larger number, where the limit is the usual one


@dataclass(frozen=True, slots=True)
class ForkedCopy:
    """A copy of this process. ``reading``: reads what it writes; ``writing``: writes what it reads."""

    pid: int
    reading: int
    writing: int

    def end(self) -> None:
        """Kill the copy, wait for its end, and close the pipes."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.reading)
        os.close(self.writing)


def forked_copy(live: Callable[[int, int], None]) -> ForkedCopy:
    """A copy of this process, which calls ``live`` with a descriptor to read from and one to write to, and then ends.

    Besides these it keeps the standard streams only: others would hide the end of this process from those at their
    other ends.
    """
    theirs, ours = os.pipe(), os.pipe()
    pid = forked_with((theirs[0], ours[1]), lambda: live(theirs[0], ours[1]))
    os.close(theirs[0])
    os.close(ours[1])
    return ForkedCopy(pid, ours[0], theirs[1])


def forked_with(kept: Collection[int], live: Callable[[], None]) -> int:
    """The pid of a copy of this process, which calls ``live`` and then ends. It has the descriptors ``kept``, and the
    standard streams, and no others.
    """
    pid = fork()
    if pid:
        return pid
    try:
        first = _STANDARD
        for each in sorted(kept):
            os.closerange(first, each)
            first = each + 1
        os.closerange(first, _HIGHEST)
        live()
    finally:
        os._exit(1)
