# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds programs that a process and its descendants execute while they are not followed. It looks now and then, and
misses programs that run for a moment only."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from gilk.targets.children import children
from gilk.targets.maps import program_of
from gilk.targets.selecting import is_instrumented

_EVERY = 0.05  # least seconds between looks
_REST = 20  # the pause before the next look, in times of the last look's duration: with many threads it takes long
_YOUNG = 1.0  # seconds in which a new process is looked at each time, and then the interval between looks at it
_NAMED = 5


class Unseen:
    """The programs that are not seen in a session with ``pid``. Its forked children are instrumented as it is, until
    they execute a program. If it is not instrumented, nothing is looked at."""

    def __init__(self, pid: int, now: Callable[[], float] = time.monotonic) -> None:
        self._pid, self._now = pid, now
        self._program = program_of(pid)
        self._active = is_instrumented(pid)
        self._known: dict[int, float] = {}  # instrumented processes, and when to look at them again
        self._since: dict[int, float] = {}
        self._executed: dict[int, str] = {}  # processes that have executed a program, and its path
        self._due = 0.0

    def look(self) -> None:
        """Look for new programs if it is time; to be called often."""
        now = self._now()
        if not self._active or now < self._due:
            return
        began = time.perf_counter()
        program = program_of(self._pid)
        if program and program != self._program:
            self._executed[self._pid] = program
        for pid in self._begun():
            self._look_at(pid, now)
        self._due = now + max(_EVERY, _REST * (time.perf_counter() - began))

    def _begun(self) -> set[int]:
        """All descendants of the process; those seen once also if their parents have ended."""
        found, left = set[int](), {self._pid, *self._since}
        while left:
            fresh = set(children(left.pop())) - found
            found |= fresh
            left |= fresh - self._since.keys()
        for gone in [pid for pid in self._since if pid not in found and not os.path.exists(f"/proc/{pid}")]:
            del self._since[gone]
            self._known.pop(gone, None)
        return found | self._since.keys()

    def _look_at(self, pid: int, now: float) -> None:
        since = self._since.setdefault(pid, now)
        if pid in self._executed or now < self._known.get(pid, 0.0):
            return
        self._known[pid] = now if now - since < _YOUNG else now + _YOUNG
        if not is_instrumented(pid) and (program := program_of(pid)):
            self._executed[pid] = program

    @property
    def remark(self) -> str:
        """A sentence about the programs that were not seen; '' if there are none, as far as is known."""
        return remark(self._executed.values())


def remark(programs: Iterable[str]) -> str:
    names = [path.rpartition("/")[2] for path in programs]
    if not names:
        return ""
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - _NAMED} more" if len(distinct) > _NAMED else ""
    which = "program that it executes is" if len(names) == 1 else "programs that it executes are"
    return f"at least {len(names)} {which} not seen here ({', '.join(distinct[:_NAMED])}{more})"
