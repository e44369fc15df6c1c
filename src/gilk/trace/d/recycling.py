# SPDX-License-Identifier: LGPL-2.1-or-later
"""Empties tables of aggregations that run full into the consumer's memory, once no clause uses them any more.

A thread that runs a clause of a probe in the process says so in its block (`inside`, native/abi/gilk_abi.h), by a plain
increment before it looks which tables are in use. membarrier(2) makes every processor's increments visible before the
blocks are read: a thread that is not inside then, or is seen outside later, will look again, and finds the other
tables.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from gilk.trace.d.aggregations import AggregationReader

_SYS_MEMBARRIER, _QUERY, _GLOBAL = 324, 0, 1
_FULL = 0.25  # the part of a table from which on it counts as full; the rest is room until the next look


def barrier() -> bool:
    """Run a memory barrier on every processor; False if the kernel cannot."""
    return int(ctypes.CDLL(None).syscall(_SYS_MEMBARRIER, _GLOBAL, 0, 0)) == 0


def has_barrier() -> bool:
    return bool(max(ctypes.CDLL(None).syscall(_SYS_MEMBARRIER, _QUERY, 0, 0), 0) & _GLOBAL)


class Recycling:
    """Switches tables and empties them. ``inside`` returns the threads that run clauses just now, by any value that no
    two of them share.
    """

    def __init__(self, aggregations: AggregationReader, inside: Callable[[], set[int]]) -> None:
        self._aggregations, self._inside = aggregations, inside
        self._waiting: set[int] | None = None  # threads to wait for; None: the tables are not switched
        self._possible = has_barrier()

    def tend(self) -> None:
        """Take the next step: switch the tables if one is full, or empty those that no thread uses any more."""
        if self._waiting is None:
            if not self._possible or self._aggregations.fill() < _FULL:
                return
            self._aggregations.switch()
            self._possible = barrier()
            if not self._possible:
                return  # the tables that were in use are not touched again
            self._waiting = self._inside()
        elif self._waiting:
            self._waiting &= self._inside()
        if not self._waiting:
            self._aggregations.retire()
            self._waiting = None
