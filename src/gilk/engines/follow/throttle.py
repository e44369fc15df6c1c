# SPDX-License-Identifier: LGPL-2.1-or-later
"""The throttle of one process: it leaves out functions that are called too often to be followed, before a trace begins
and all through it."""

from __future__ import annotations

import time

import numpy as np

from gilk.engines.follow.adapt import Budget, CallCounts
from gilk.engines.follow.base import BaseFollower
from gilk.trace.traced import Omitted

_ROUNDS = (0.003, 0.006, 0.012, 0.024, 0.2)  # seconds of each round of the rehearsal
_PATIENCE = 0.24  # seconds that a round may take if the program does nothing
_TELLING = 1000  # calls; a program that makes fewer in a round is idle
_FIRST, _EVERY = 0.005, 0.1  # seconds between looks, at first and later


class Throttle:
    """Leaves functions out. ``chosen()``: the functions to begin with. After ``begin``, call ``count`` each time that
    buffers were emptied."""

    def __init__(self, follower: BaseFollower, budget: Budget) -> None:
        self._follower = follower
        self._budget = budget
        self._hot: set[int] = set()
        self._called: set[int] = set()  # functions that were called in the rehearsal
        self._calls = CallCounts.none(0, 0.0)
        self._due = 0.0
        self._pause = _FIRST

    def rehearse(self) -> None:
        """Follow everything for a while, to learn what is called too often; without that, a trace's first moments would
        be slow.

        Each round is longer than the one before, and follows fewer functions. Its records are thrown away.
        """
        follower = self._follower
        follower.follow(range(follower.functions))
        for seconds in _ROUNDS:
            excess = self._rehearse_once(seconds)
            follower.leave(excess)
            self._hot.update(excess)
        follower.leave()
        follower.poll()

    def _rehearse_once(self, seconds: float) -> list[int]:
        """Follow for ``seconds``, or up to ten times that if little happens; returns the functions that were called too
        often."""
        follower, began, patience = self._follower, time.monotonic(), min(10 * seconds, _PATIENCE)
        calls = CallCounts.none(follower.functions, began, follower.drain.drops())
        while (past := time.monotonic() - began) < seconds or (past < patience and calls.counts.sum() < _TELLING):
            time.sleep(seconds / 4)
            follower.take()
            calls.count(follower.of_iid, follower.latest)
        self._called.update(np.flatnonzero(calls.counts).tolist())
        return self._excess(calls, time.monotonic())

    def _excess(self, calls: CallCounts, now: float) -> list[int]:
        calls.scale(self._follower.drain.drops())
        excess = self._budget.excess(calls.counts, now - calls.since, max(1, len(calls.threads)))
        return [number for number in excess if number in self._follower.followed]

    def chosen(self) -> frozenset[int]:
        return frozenset(range(self._follower.functions)) - self._hot

    @property
    def busy(self) -> frozenset[int]:
        """The functions that were called in the rehearsal, chosen or not."""
        return frozenset(self._called)

    def begin(self, at: int) -> list[Omitted]:
        """Note that the trace has begun, at ``at`` ns of its time line; returns the functions that are left out from
        the start."""
        now = time.monotonic()
        self._calls = CallCounts.none(self._follower.functions, now, self._follower.drain.drops())
        self._due = now + self._pause
        return self._omitted(sorted(self._hot), at)

    def count(self) -> None:
        """Count the records that were just taken out of the buffers."""
        self._calls.count(self._follower.of_iid, self._follower.latest)

    def adapt(self, at: int) -> list[Omitted]:
        """If it is time to look, leave out functions that are called too often; returns these. Raises TargetError."""
        now, calls = time.monotonic(), self._calls
        if now < self._due:
            return []
        excess = self._excess(calls, now)
        self._calls = calls.again(self._follower.functions, now)
        self._due, self._pause = now + self._pause, min(2 * self._pause, _EVERY)
        if excess:
            self._follower.leave(excess)
        return self._omitted(excess, at, calls)

    @property
    def patience(self) -> float:
        """How many seconds there are between looks."""
        return self._pause

    def _omitted(self, numbers: list[int], at: int, calls: CallCounts | None = None) -> list[Omitted]:
        left = [number for number in numbers if not self._follower.carries(number)]
        functions = [(self._follower.function(number), number) for number in left]
        return [
            Omitted(function.name, function.image, at, int(calls.totals[number]) if calls is not None else 0)
            for function, number in functions
        ]
