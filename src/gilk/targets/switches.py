# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernel's figures about a process's threads: how often they gave up a processor, or lost it, or waited for one.

They are read now and then while the process lives: nothing is left of a thread that has ended.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from gilk.arch.syscalls import NAMES
from gilk.targets.stat import FAULTS, stat_of
from gilk.targets.status import status_of
from gilk.values import dataclass

_EVERY = 0.1  # seconds
_VOLUNTARY, _INVOLUNTARY = b"voluntary_ctxt_switches", b"nonvoluntary_ctxt_switches"


@dataclass(frozen=True, slots=True)
class Switches:
    """The figures of one thread, or of all: how often it waited, how often its processor was taken from it, and how
    often a page of its memory had to be read from somewhere; ``ran``, ns on processors, and ``delay``, ns for which it
    could have run and had no processor. The last two are None if the kernel has no figures."""

    voluntary: int = 0
    involuntary: int = 0
    faults: int = 0
    ran: int | None = 0
    delay: int | None = 0

    def minus(self, other: Switches) -> Switches:
        return Switches(
            self.voluntary - other.voluntary, self.involuntary - other.involuntary, self.faults - other.faults,
            _sum(self.ran, other.ran, -1), _sum(self.delay, other.delay, -1),
        )  # fmt: skip

    def plus(self, other: Switches) -> Switches:
        return Switches(
            self.voluntary + other.voluntary, self.involuntary + other.involuntary, self.faults + other.faults,
            _sum(self.ran, other.ran, 1), _sum(self.delay, other.delay, 1),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Waiting:
    """A thread that is in the system call ``call``."""

    tid: int
    name: str
    call: str


@dataclass
class Account:
    """The figures of one process. Call ``begin`` when the probes are in, and ``look`` now and then; ``total`` and
    ``waiting`` are those of the last look."""

    waiting: tuple[Waiting, ...] = ()
    _pid: int = 0
    _first: dict[int, Switches] = field(default_factory=dict)
    _last: dict[int, Switches] = field(default_factory=dict)
    _due: float = 0.0

    def begin(self, pid: int) -> None:
        self._pid = pid
        self._first = dict(_threads(pid))

    def look(self) -> None:
        """Read the figures if it is time; cheap otherwise."""
        if self._pid and time.monotonic() >= self._due:
            self._due = time.monotonic() + _EVERY
            self.look_now()

    def look_now(self) -> None:
        self._last.update(_threads(self._pid))
        self.waiting = tuple(_waiting(self._pid))

    @property
    def total(self) -> Switches:
        """The figures of all threads together, since the probes were in."""
        sum_of_all = Switches()
        for tid, last in self._last.items():
            sum_of_all = sum_of_all.plus(last.minus(self._first.get(tid, Switches())))
        return sum_of_all

    @property
    def threads(self) -> int:
        """The number of threads seen."""
        return len(self._last)


def _tids(pid: int) -> list[int]:
    try:
        return sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    except OSError:
        return []


def _threads(pid: int) -> Iterator[tuple[int, Switches]]:
    for tid in _tids(pid):
        with contextlib.suppress(OSError, ValueError, KeyError):  # the thread has ended
            status = status_of(tid)
            switches = int(status[_VOLUNTARY]), int(status[_INVOLUNTARY])
            yield tid, Switches(*switches, int(stat_of(pid, tid)[FAULTS]), *_scheduled(pid, tid))


def _scheduled(pid: int, tid: int) -> tuple[int | None, int | None]:
    """The first two figures of /proc/PID/task/TID/schedstat; None for both if the kernel has none."""
    try:
        ran, delay, _ = Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()
        return int(ran), int(delay)
    except (OSError, ValueError):
        return None, None


def _waiting(pid: int) -> Iterator[Waiting]:
    for tid in _tids(pid):
        with contextlib.suppress(OSError):
            task = Path(f"/proc/{pid}/task/{tid}")
            number = (task / "syscall").read_text().split()[0]
            if number.isdigit() and int(number) in NAMES:
                yield Waiting(tid, (task / "comm").read_text(errors="replace").rstrip("\n"), NAMES[int(number)])


def _sum(one: int | None, other: int | None, sign: int) -> int | None:
    return None if one is None or other is None else one + sign * other
