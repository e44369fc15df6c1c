# SPDX-License-Identifier: LGPL-2.1-or-later
"""What was lost, by kind and processor, since the last look."""

from __future__ import annotations

from enum import IntEnum

from gilk.errors import StoreError
from gilk.trace.d.layout import DROPS
from gilk.trace.d.memory import Memory
from gilk.values import dataclass


class DropKind(IntEnum):
    """enum gd_drop."""

    PRINCIPAL = 0
    AGGREGATION = 1
    DYNAMIC = 2
    SPECULATION = 3
    SPECULATION_BUSY = 4
    SPECULATION_UNAVAILABLE = 5
    DBLERROR = 6
    STACK = 7


@dataclass(frozen=True, slots=True)
class Drop:
    kind: DropKind
    cpu: int  # modulo the number of buffers
    count: int


class Drops:
    """The counters of a memory object. One per consumer: it remembers what it has told of."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._seen = [0] * len(memory.drops)
        self.errors: list[StoreError] = []

    def look(self) -> tuple[Drop, ...]:
        """What has come since the last call, in order of kind, then processor."""
        now = self._memory.drops.tolist()
        grown = [count - seen for count, seen in zip(now, self._seen, strict=True)]
        self._seen = now
        if min(grown) < 0:
            self.errors.append(StoreError("stream-corrupt", "a counter of drops went down"))
        found = [
            Drop(DropKind(place % DROPS), place // DROPS, count) for place, count in enumerate(grown) if count > 0
        ]
        return tuple(sorted(found, key=lambda drop: (drop.kind, drop.cpu)))

    def totals(self) -> dict[DropKind, int]:
        """Of all there have been, over all processors."""
        now = self._memory.drops.tolist()
        return {kind: sum(now[kind::DROPS]) for kind in DropKind}
