# SPDX-License-Identifier: LGPL-2.1-or-later
"""Periods of a run: what has come since the last one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gilk.runs.progress import Progress
from gilk.runs.run import Run
from gilk.trace.period import Period


class Periods:
    """Reports periods. ``every``: seconds. A period goes from one look to another, so that it may be longer.

    ``tell`` is called with each period.
    """

    def __init__(self, running: Run, every: float, tell: Callable[[Period], None]) -> None:
        self._running, self._every, self._tell = running, every, tell
        self._next = every
        self._before: Mapping[str, int] = {}
        self._state = Progress()

    def look(self, state: Progress) -> None:
        """Report a period, if it is time; call this often, with the run's progress."""
        if state.seconds < self._next:
            return
        counts = self._running.counts()
        fresh = {point: count - self._before.get(point, 0) for point, count in counts.items()}
        records, drops = state.records - self._state.records, state.drops - self._state.drops
        self._tell(Period(state.seconds, {point: count for point, count in fresh.items() if count > 0}, records, drops))
        self._before, self._state = counts, state
        self._next += self._every * ((state.seconds - self._next) // self._every + 1)
