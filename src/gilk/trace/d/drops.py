# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counts losses, by kind and processor, since the last look."""

from __future__ import annotations

from gilk.errors import StoreError
from gilk.trace.d.events import DropKind, Dropped
from gilk.trace.d.layout import DROPS
from gilk.trace.d.memory import ProgramMemory
from gilk.trace.possible import Possible


class Drops:
    """Reads the counters of drops of a memory object. There must be one for each consumer: it remembers what it has
    reported.

    A counter that goes down, or is larger than possible, is not read any more, and is reported once as an error.
    """

    def __init__(self, memory: ProgramMemory) -> None:
        self._memory = memory
        self._seen = [0] * len(memory.drops)
        self._bad: set[int] = set()
        self._possible = Possible()
        self.errors: list[StoreError] = []

    def look(self) -> tuple[Dropped, ...]:
        """The drops since the last call, in order of kind, then processor."""
        self._memory.look()
        now = self._believed()
        grown = [count - seen for count, seen in zip(now, self._seen, strict=True)]
        self._seen = now
        found = [
            Dropped(DropKind(place % DROPS), place // DROPS, count) for place, count in enumerate(grown) if count > 0
        ]
        return tuple(sorted(found, key=lambda drop: (drop.kind, drop.cpu)))

    def _believed(self) -> list[int]:
        """The counters of drops; in place of an impossible value, the last possible one of that counter.

        The first impossible value of a counter adds an error to ``errors``.
        """
        now, most = self._memory.drops.tolist(), self._possible.in_all
        for place, (count, seen) in enumerate(zip(now, self._seen, strict=True)):
            if place not in self._bad and not seen <= count <= most:
                self._bad.add(place)
                what = DropKind(place % DROPS).name.lower().replace("_", " ")
                self.errors.append(StoreError("stream-corrupt", f"a counter of drops ({what}) has an impossible value"))
        return [self._seen[place] if place in self._bad else count for place, count in enumerate(now)]

    def totals(self) -> dict[DropKind, int]:
        """The number of all drops so far, by kind, over all processors."""
        now = self._believed()
        return {kind: sum(now[kind::DROPS]) for kind in DropKind if kind < DROPS}
