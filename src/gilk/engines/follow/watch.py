# SPDX-License-Identifier: LGPL-2.1-or-later
"""Watching for the event that starts or stops a trace."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence

from gilk.engines.follow.base import BaseFollower
from gilk.engines.follow.keyboard import Keyboard
from gilk.spec.event import Elapsed, Event, Exit, Key, Now, Reach, Signal
from gilk.trace.gates import Reached


class Watch:
    """Waits for one event; close it at the end. ``gate``: the followers' gate for it.

    Raises UsageError `bad-event`, TargetError `no-keyboard`.
    """

    def __init__(self, event: Event, gate: int) -> None:
        self.event = event
        self.gate = gate
        self.reached: tuple[BaseFollower, Reached] | None = None
        self._signals = 0
        self._keyboard = Keyboard(event.keys) if isinstance(event, Key) else None
        if isinstance(event, Signal):
            self._before = signal.signal(event.number, self._arrived)

    def _arrived(self, *_: object) -> None:
        self._signals += 1

    def come(self, followers: Sequence[BaseFollower], began: float, patience: float) -> bool:
        """Wait up to ``patience`` seconds for the event; returns whether it has come.

        ``began``: when the time of `after:` or `for:` begins to count, by time.monotonic.
        """
        match self.event:
            case Now():
                return True
            case Reach():
                return self._reach(followers, patience)
            case Elapsed(seconds=seconds):
                time.sleep(max(0.0, min(patience, began + seconds - time.monotonic())))
                return time.monotonic() >= began + seconds
            case Signal():
                return self._until(lambda: self._signals > 0, patience)
            case Key():
                return self._until(self._pressed, patience)
            case Exit() | _:
                time.sleep(patience)
                return False

    def passed(self, followers: Sequence[BaseFollower]) -> tuple[BaseFollower, Reached] | None:
        """The follower that has reached its gate, with the hit; None if none has."""
        if isinstance(self.event, Reach):
            self._reach(followers, 0.0)
        return self.reached

    def _reach(self, followers: Sequence[BaseFollower], patience: float) -> bool:
        for follower in followers:
            found = follower.gates.wait(self.gate, patience / len(followers))
            if found is not None:
                self.reached = follower, found
        return self.reached is not None

    def _pressed(self) -> bool:
        return self._keyboard is not None and self._keyboard.pressed()

    @staticmethod
    def _until(true: Callable[[], bool], patience: float) -> bool:
        deadline = time.monotonic() + patience
        while not true():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, 0.002))
        return True

    def close(self) -> None:
        if self._keyboard is not None:
            self._keyboard.close()
        if isinstance(self.event, Signal):
            signal.signal(self.event.number, self._before)
