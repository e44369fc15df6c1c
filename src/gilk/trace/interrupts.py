# SPDX-License-Identifier: LGPL-2.1-or-later
"""Decides which records of interrupts, that came while another program ran, belong to a trace.

A waiting thread may wait for such an interrupt. The kernel records all of them (native/abi/ilk_abi.h, FILTER); an
interrupt is kept if it came to a processor on which a wanted thread was last seen, and then belongs to the processor.
"""

from __future__ import annotations

from dataclasses import field

from gilk.values import dataclass


@dataclass
class Interrupts:
    """``wanted`` are processes; None: all are wanted, and then an interrupt belongs to the thread that it
    interrupts.
    """

    wanted: frozenset[int] | None = None
    _homes: dict[int, int] = field(default_factory=dict)  # by thread, the processor on which it was last seen

    def wants(self, pid: int | None, tid: int) -> bool:
        """Whether records of that thread are wanted as its own; ``pid`` is None if its process is not known
        any more.
        """
        return self.wanted is None or (tid if pid is None else pid) in self.wanted

    def at(self, cpu: int, pid: int | None, tid: int) -> tuple[int, int] | None:
        """The process and thread that a record belongs to, made on ``cpu`` while thread ``tid`` of process ``pid`` was
        running; None if it is not wanted.

        A thread whose process is not known any more may have been wanted: its records are not left out. On a processor
        without kept interrupts they belong to the thread as a process of its own.
        """
        if self.wants(pid, tid):
            if self.wanted is not None:
                self._homes[tid] = cpu
            return (tid if pid is None else pid), tid  # that of a process's first thread
        if cpu in self._homes.values():
            return 0, lane(cpu)
        return (tid, tid) if pid is None else None

    def forget(self, tid: int) -> None:
        """Forget a thread, which has ended."""
        self._homes.pop(tid, None)


def lane(cpu: int) -> int:
    """The number under which interrupts of a processor are shown as a thread: below all threads."""
    return -1 - cpu


def lane_name(tid: int) -> str:
    """The name of a processor's interrupts; '' for a thread."""
    return f"interrupts of CPU {-1 - tid}" if tid < 0 else ""
