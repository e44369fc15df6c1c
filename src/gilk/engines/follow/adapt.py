# SPDX-License-Identifier: LGPL-2.1-or-later
"""The budget for following calls: functions that are called so often that following them slows the program down
(sptracer.txt 5.4).

A followed call costs 20 ns in a loop, and some 100 if the function is called now and then, in a program that needs its
caches for itself. While all calls together cost less than a share of the time, everything is followed. Beyond that, the
most frequently called functions are left out, as few as will do: a call that takes long cannot be made often, so only
short functions go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from gilk.trace.drain import Chunk, Identity
from gilk.values import dataclass

CALL = 100e-9  # seconds that a followed call costs
_SMALL = 100  # a function with less than this part of the allowed calls is not worth leaving out


@dataclass(frozen=True)
class Budget:
    """Limits for following: the ``share`` of a thread's time that it may take, and the ``rate`` of calls a second, over
    all threads, that can be stored."""

    share: float = 0.05
    rate: float = 1.5e6

    def excess(self, calls: NDArray[np.int64], seconds: float, threads: int) -> list[int]:
        """The numbers of the functions to leave out; ``calls``: how often each function was called in the last
        ``seconds``, by ``threads`` threads."""
        allowed = min(self.share * threads / CALL, self.rate) * seconds
        total = int(calls.sum())
        if total <= allowed:
            return []
        order = np.argsort(calls)[::-1]
        remaining = total - np.cumsum(calls[order])
        enough = int(np.argmax(remaining <= allowed / 2)) + 1  # half: the remaining ones may be called more often
        return [int(n) for n in order[:enough] if calls[n] * _SMALL >= allowed]


@dataclass
class CallCounts:
    """Counts of calls by function since the last look; ``totals``: since the beginning."""

    counts: NDArray[np.int64]
    totals: NDArray[np.int64]
    since: float
    threads: set[Identity] = field(default_factory=set)
    drops: int = 0

    @classmethod
    def none(cls, functions: int, now: float, drops: int = 0) -> CallCounts:
        return cls(np.zeros(functions, np.int64), np.zeros(functions, np.int64), now, drops=drops)

    def count(self, of_iid: NDArray[np.int64], chunks: Iterable[Chunk]) -> None:
        """Add the records that were just taken out of the buffers. ``of_iid``: by iid, the number of its function, or
        -1."""
        for chunk in chunks:
            self.threads.add(chunk.identity)
            iids = chunk.records["iid"]
            numbers = of_iid[iids[iids < len(of_iid)]]
            found = np.bincount(numbers[numbers >= 0], minlength=len(self.counts))
            self.counts += found[: len(self.counts)]
            self.totals += found[: len(self.counts)]

    def scale(self, drops: int) -> None:
        """Scale the counts up for dropped records, as if these were like the others. ``drops``: how many were dropped
        until now."""
        lost, seen = drops - self.drops, int(self.counts.sum())
        self.drops = drops
        if lost and seen:
            self.counts = (self.counts * (1 + lost / (2 * seen))).astype(np.int64)

    def again(self, functions: int, now: float) -> CallCounts:
        """Counts from zero, for the next period; ``functions``: how many there are by now."""
        totals = np.zeros(functions, np.int64)
        totals[: len(self.totals)] = self.totals
        return CallCounts(np.zeros(functions, np.int64), totals, now, drops=self.drops)
