# SPDX-License-Identifier: LGPL-2.1-or-later
"""Libraries that a program opens while it is traced: they are followed before their first instruction runs.

The dynamic linker calls a function of its own, for debuggers, once it has
mapped a library and before it runs the library's constructors (``r_brk`` of
``struct r_debug``, <link.h>). A gate there holds the thread while the library
is made ready.
"""

from __future__ import annotations

from collections.abc import Callable

from gilk.errors import GilkError
from gilk.session.follow import Follower
from gilk.target.base import Loaded

_NOTIFY = "_dl_debug_state"
_HOLD = 60.0  # seconds; the gate is opened as soon as all is ready, and by the keeper should we die

Prepare = Callable[[Follower, Loaded], None]


class Libraries:
    """Of one process. ``prepare`` is called with each library that comes."""

    def __init__(self, follower: Follower, gate: int, prepare: Prepare) -> None:
        self._follower = follower
        self._gate = gate
        self._prepare = prepare
        self._known = {loaded.path for loaded in follower.process.loaded()}
        self.watched = self._watch()

    def _watch(self) -> bool:
        """False where there is no dynamic linker, or none that can be watched: libraries are then not noticed."""
        for loaded in self._follower.process.loaded():
            image = self._follower.process.image(loaded.path)
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
        if not self.watched or self._follower.gates.reached(self._gate) is None:
            return False
        try:
            for loaded in self._follower.process.loaded():
                if loaded.path not in self._known:
                    self._known.add(loaded.path)
                    self._prepare(self._follower, loaded)
        finally:
            self._follower.gates.arm(self._gate, hold=_HOLD)
            self._follower.gates.wake(self._gate)
        return True
