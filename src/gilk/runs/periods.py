# SPDX-License-Identifier: LGPL-2.1-or-later
"""A run told in periods: what has come since the last time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gilk.runs.run import Progress, Run
from gilk.trace.period import Period


class Periods:
    """``every``: seconds. Periods go from when the run looks to when it looks again, so that one may be longer."""

    def __init__(self, running: Run, every: float, tell: Callable[[Period], None]) -> None:
        self._running, self._every, self._tell = running, every, tell
        self._next = every
        self._before: Mapping[str, int] = {}
        self._state = Progress()

    def look(self, state: Progress) -> None:
        """To be called often, with the run's progress."""
        if state.seconds < self._next:
            return
        counts = self._running.counts()
        fresh = {point: count - self._before.get(point, 0) for point, count in counts.items()}
        records, drops = state.records - self._state.records, state.drops - self._state.drops
        self._tell(Period(state.seconds, {point: count for point, count in fresh.items() if count > 0}, records, drops))
        self._before, self._state = counts, state
        self._next += self._every * ((state.seconds - self._next) // self._every + 1)
