# SPDX-License-Identifier: LGPL-2.1-or-later
"""Libraries that a program opens while it is traced: they are followed before their first instruction runs.

The dynamic linker calls a function of its own, for debuggers, once it has
mapped a library and before it runs the library's constructors (``r_brk`` of
``struct r_debug``, <link.h>). A gate there holds the thread while the library
is made ready.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

import numpy as np

from gilk.engines.follow.base import BaseFollower
from gilk.errors import GilkError
from gilk.targets.base import Loaded

_NOTIFY = "_dl_debug_state"
_HOLD = 60.0  # seconds; the gate is opened as soon as all is ready, and by the keeper should we die

Prepare = Callable[[BaseFollower, Loaded], None]


class Libraries:
    """The libraries of one process. ``known`` were made ready; ``prepare`` is called with each new one. ``held``: ns
    for which threads were held."""

    def __init__(self, follower: BaseFollower, gate: int, prepare: Prepare, known: Collection[Loaded]) -> None:
        self._follower = follower
        self._gate = gate
        self._prepare = prepare
        self._known = set(known)
        self.held = 0
        self.watched = self._watch()
        self._catch_up()

    def _watch(self) -> bool:
        """False where there is no dynamic linker, or none that can be watched: libraries are then not noticed."""
        for loaded in self._follower.code.loaded():
            image = self._follower.code.image(loaded.path)
            span = next((s for s in image.spans if _NOTIFY in (s.name, *s.aliases)), None)
            if span is not None:
                try:
                    self._follower.put_gate(loaded, span, "entry", self._gate)
                except GilkError:
                    return False
                self._follower.gates.arm(self._gate, hold=_HOLD)
                return True
        return False

    def look(self) -> bool:
        """Deal with libraries that have come; whether a thread had been waiting for that."""
        reached = self._follower.gates.reached(self._gate) if self.watched else None
        if reached is None:
            return False
        try:
            self._catch_up()
        finally:
            self._follower.gates.arm(self._gate, hold=_HOLD)
            self._follower.gates.wake(self._gate)
        since = int(self._follower.clock.to_ns(np.array([reached.tsc], np.uint64))[0])
        self.held += max(0, time.monotonic_ns() - since)
        return True

    def _catch_up(self) -> None:
        present = set(self._follower.code.loaded())
        if self._known - present:
            present = self._without(self._known - present)
        for loaded in present - self._known:
            self._prepare(self._follower, loaded)
        self._known = present

    def _without(self, gone: set[Loaded]) -> set[Loaded]:
        """Give up what was closed; what is there then. The thread goes on meanwhile: while it is in the gate, it could
        not be told that it is in none of the patches that go."""
        self._follower.gates.open(self._gate)
        for loaded in gone:
            self._follower.lose(loaded)
            self._known.discard(loaded)
        return set(self._follower.code.loaded())
