# SPDX-License-Identifier: LGPL-2.1-or-later
"""The owner of an interrupt that came while another program ran.

A waiting thread may wait for it. The kernel records all of them (native/abi/ilk_abi.h, FILTER); those are kept that
came to a processor on which a wanted thread was last seen, and they are the processor's.
"""

from __future__ import annotations

from dataclasses import field

from gilk.values import dataclass


@dataclass
class Interrupts:
    """``wanted`` are processes; None: all, and then an interrupt is that of the thread it interrupts."""

    wanted: frozenset[int] | None = None
    _homes: dict[int, int] = field(default_factory=dict)  # of threads: the processor

    def wants(self, pid: int | None, tid: int) -> bool:
        """Records of that thread are its own; ``pid`` is None when its process is not known any more."""
        return self.wanted is None or (tid if pid is None else pid) in self.wanted

    def at(self, cpu: int, pid: int | None, tid: int) -> tuple[int, int] | None:
        """The process and thread that a record belongs to, made on ``cpu`` while thread ``tid`` of process ``pid`` was
        running; None when it is not wanted.

        A thread whose process is not known any more may have been wanted: it is not left out, and elsewhere than where
        interrupts are kept it is one by itself.
        """
        if self.wants(pid, tid):
            if self.wanted is not None:
                self._homes[tid] = cpu
            return (tid if pid is None else pid), tid  # that of a process's first thread
        if cpu in self._homes.values():
            return 0, lane(cpu)
        return (tid, tid) if pid is None else None

    def forget(self, tid: int) -> None:
        """A thread has ended."""
        self._homes.pop(tid, None)


def lane(cpu: int) -> int:
    """The number of what is shown as a thread, and is the interrupts of a processor: below all threads."""
    return -1 - cpu


def lane_name(tid: int) -> str:
    """Empty for a thread."""
    return f"interrupts of CPU {-1 - tid}" if tid < 0 else ""
