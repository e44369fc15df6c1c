# SPDX-License-Identifier: LGPL-2.1-or-later
"""Planning of functions with all of their probes, image by image: a plan comes out of the cache or is made anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from gilk.session.entry import Entry
from gilk.session.staging import Cache, Planning, StagedBatch, Stager, staged
from gilk.splice.planner import PatchContext

B = TypeVar("B")


class EntryPlanner(Generic[B]):
    """Plans entries, and hands the plans to the holder of the target; this makes nothing active."""

    def __init__(self, workspace: Stager[B], planning: Planning, cache: Cache[B] | None) -> None:
        self._workspace, self.planning, self._cache = workspace, planning, cache

    def plan(self, entries: list[Entry]) -> Iterator[StagedBatch[B]]:
        """Plan entries; yields one batch for each image, or two if the cache had some of its plans. Raises as the
        Stager does."""
        grounds = {id(e.ground): e.ground for e in entries}
        for ground in grounds.values():
            here = [e for e in entries if e.ground is ground]
            kept = self._cache.take(ground, here) if self._cache is not None else None
            if kept is not None:
                yield kept
                here = [e for e in here if e.plan is None]  # entries whose plans came from the cache have one by now
            if here:
                yield self._fresh(ground, here)

    def _fresh(self, ground: PatchContext, entries: list[Entry]) -> StagedBatch[B]:
        order = sorted(entries, key=lambda e: -e.start)
        wanted = [(e.function, e.to_plan) for e in order]
        made, number, batch = staged(ground, wanted, self._workspace, self.planning)
        rows = [(entry, unit, made_of) for unit, (entry, made_of) in enumerate(zip(order, made.functions, strict=True))]
        return StagedBatch(number, batch, rows)
