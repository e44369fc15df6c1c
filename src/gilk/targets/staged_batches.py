# SPDX-License-Identifier: LGPL-2.1-or-later
"""The batches of a keeper: those that clients have staged, and those that they have dropped since."""

from __future__ import annotations

from gilk.targets.batch import Batch
from gilk.targets.copies import Units
from gilk.targets.live_code import LiveBatch
from gilk.targets.places import Places

_REMEMBERED = 4


class StagedBatches:
    """``live``: the staged batches, by number. Dropped batches are remembered, because a forked child may still have
    them in force."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self.live: dict[int, LiveBatch] = {}
        self._past: list[LiveBatch] = []
        self._everywhere: Places | None = None  # computed by everywhere()
        self._ever: Places | None = None  # computed by ever()
        self._known_places: dict[object, Places] = {}

    def stage(self, number: int, batch: Batch) -> None:
        self.live[number] = LiveBatch(batch)
        self._everywhere = self._ever = None

    def forget(self, number: int) -> None:
        """Drop a batch that has no active units."""
        assert not self.live[number].active
        self._past.append(self.live.pop(number))
        self._everywhere = None

    @property
    def all(self) -> list[LiveBatch]:
        """All batches: first those that were dropped, then the staged ones."""
        return [*self._past, *self.live.values()]

    @property
    def active(self) -> Units:
        """The units that are in force."""
        return {n: one.active for n, one in self.live.items()}

    def only(self, units: Units) -> dict[int, Batch]:
        """The parts of batches that have these units, by number; there are no empty parts."""
        return {n: self.live[n].batch.only(some) for n, some in units.items() if some}

    def places(self, units: Units) -> Places:
        """The places of units. The last few results are kept, for a change that is made again and again."""
        key = tuple((n, frozenset(some)) for n, some in units.items())
        if key not in self._known_places:
            while len(self._known_places) >= _REMEMBERED:
                self._known_places.pop(next(iter(self._known_places)))
            self._known_places[key] = Places(list(self.only(units).values()))
        return self._known_places[key]

    def ever(self) -> Places:
        """The places of all batches that the session has ever had."""
        if self._ever is None:
            self._ever = Places([one.batch for one in self.all])
        return self._ever

    def everywhere(self) -> Places:
        """The places of all live batches."""
        if self._everywhere is None:
            self._everywhere = Places([one.batch for one in self.live.values()])
        return self._everywhere
