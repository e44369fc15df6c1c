# SPDX-License-Identifier: LGPL-2.1-or-later
"""C functions at the entries of very many functions at once: from plans that the cache keeps of an image.

To plan a thousand functions takes seconds, to put the plans of the last time where they belong takes milliseconds.
Where a probe is alone in its function nothing but the function called and its number change from one time to the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from gilk.session import portables
from gilk.session.ledger import Entry, Staged
from gilk.splice.allocator import OutOfSpace
from gilk.splice.capture import capture, entry_points
from gilk.splice.instrument import Call, CallWithValues
from gilk.splice.planner import PatchContext
from gilk.splice.portable import Portable
from gilk.target.batch import Batch
from gilk.target.blank import blank_ground, stand_in
from gilk.target.placing import place, plans
from gilk.target.workspace import Workspace
from gilk.values import dataclass

_MANY = 500  # functions of one image, for which it is worth it
_NEW = 10  # percent of the functions that may be new to the cache

_Called = Call | CallWithValues
#: Where there can be no such plans, functions are planned one by one.
_TOO_MUCH = (OutOfSpace, OverflowError, MemoryError)


@dataclass(frozen=True, slots=True)
class _Carrier:
    """A function with the number that its instrument is called with, and the key of its probe."""

    entry: Entry
    iid: int
    key: int


class EntryShelf:
    """For the ledger of one session."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def take(self, ground: PatchContext, entries: Iterable[Entry]) -> Staged[Batch] | None:
        """Raises CompileError, and TargetError as the keeper does."""
        called, wanted = _alike(entries)
        if called is None or len(wanted) < _MANY:
            return None
        portable = self._portable(ground, called, wanted.keys())
        return self._staged(ground, portable, called, wanted) if portable is not None else None

    def _portable(self, ground: PatchContext, called: _Called, starts: Iterable[int]) -> Portable | None:
        """From the cache; made anew, for more functions, when too many of these are not in there."""
        image, shape = ground.analysis.image, self._workspace.shape
        key = portables.key(f"{type(called).__name__}-{called.clobbers:x}", image, shape)
        known = portables.load(key, image)
        asked, had = set(starts), set(known.unit_start.tolist()) if known is not None else set()
        if 100 * len(asked - had) <= _NEW * len(asked):
            return known
        blank = blank_ground(ground.analysis, shape)
        function = stand_in(blank)
        try:
            made = capture(
                blank, entry_points(ground.analysis, sorted(asked | had)),
                lambda row: replace(called, function=function, iid=row), function,
            )  # fmt: skip
        except _TOO_MUCH:
            return None
        portables.keep(key, made)
        return made

    def _staged(
        self, ground: PatchContext, portable: Portable, called: _Called, wanted: Mapping[int, _Carrier]
    ) -> Staged[Batch] | None:
        workspace, loaded = self._workspace, self._workspace.loaded(ground)
        spot = workspace.spot(loaded, len(portable.code), called.function)
        if spot is None:
            return None
        starts = portable.unit_start.tolist()
        carriers = {unit: wanted[start] for unit, start in enumerate(starts) if start in wanted}
        iids, chosen = np.zeros(len(starts), np.int64), np.zeros(len(starts), np.bool_)
        iids[list(carriers)] = [carrier.iid for carrier in carriers.values()]
        chosen[list(carriers)] = True
        chosen &= portable.whole()
        placed = place(portable, spot, iids[portable.row_unit])
        chosen &= ~workspace.reserve(loaded, portable, placed, chosen)
        if not chosen.any():
            return None
        number, batch = workspace.stage_placed(loaded, portable, placed, spot, chosen, alone=False)
        keys = {unit: carriers[unit].key for unit in np.flatnonzero(chosen).tolist()}
        made = plans(portable, placed, spot.bias, keys)
        return Staged(number, batch, [(carriers[unit].entry, unit, plan) for unit, plan in made.items()])


def _alike(entries: Iterable[Entry]) -> tuple[_Called | None, dict[int, _Carrier]]:
    """Those that carry nothing but one and the same C function where they begin, by their start: most of them."""
    found: dict[tuple[type[_Called], int, int], dict[int, _Carrier]] = defaultdict(dict)
    for entry in entries:
        if len(entry.wants) == 1:
            (want,) = entry.wants.values()
            made = want.instrument
            if want.address == entry.start and not want.after and isinstance(made, _Called):
                carrier = _Carrier(entry, made.iid, want.key)
                found[type(made), made.function, made.clobbers][entry.start] = carrier
    if not found:
        return None, {}
    kind, function, clobbers = max(found, key=lambda each: len(found[each]))
    return kind(function, 0, clobbers), found[kind, function, clobbers]
