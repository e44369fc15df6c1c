# SPDX-License-Identifier: LGPL-2.1-or-later
"""The session of a process that several have probes in, each of which come and go together."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence

from gilk.errors import TargetError
from gilk.session.broker.messages import THREADS, ResolvedInsert
from gilk.session.ledger import Entry, Result
from gilk.session.session import Session
from gilk.splice.instrument import Instrument
from gilk.splice.plan import Want
from gilk.splice.planner import PatchContext
from gilk.target.base import Target
from gilk.trace.clock import Clock
from gilk.trace.drain import Drain

_RING = 4096  # bytes
_NO_CLOCK = Clock(0, 0, 1.0)  # there are no samples: what consumers record is in memory of their own
#: The reason why a point is refused where a probe of somebody else would have to go for it.
IN_ANOTHERS_WAY = "in-anothers-way"

Carried = tuple[Entry, Want]


class SharedSession(Session):
    """Its probes are not numbered: who has them knows which they are."""

    def __init__(self, process: Target) -> None:
        super().__init__(process, points=1, threads=THREADS, ring=_RING, clock=_NO_CLOCK)
        self.data_address: int = process.keeper.data_address()
        self._carried: set[int] = set()
        self._orphans: list[Carried] = []
        self._last = 0

    def put_in(self, placed: Sequence[ResolvedInsert]) -> tuple[list[Carried], dict[int, str]]:
        """In one change; what is in force, and why the rest, by its place in ``placed``, is not. Raises as add()."""
        first = self._last + 1
        mine = self._carry(placed)
        result = self._add([*mine, *self._handlers()])
        self._orphans += mine  # until they are somebody's
        refused = _refusals(result)
        reasons = {key - first: refused[key] for _, want in mine if (key := want.key) in refused}
        kept = self._without(mine, refused.keys())
        out = self._in_the_way(kept, refused.keys())
        reasons |= {want.key - first: IN_ANOTHERS_WAY for _, want in out}
        kept = [one for one in kept if one not in out]
        self._carried |= {want.key for _, want in kept}
        self._orphans.clear()
        return kept, reasons

    def _carry(self, placed: Sequence[ResolvedInsert]) -> list[Carried]:
        """What is alike, as an image or an instrument, is the same value."""
        calls: dict[tuple[int, int], tuple[PatchContext, Callable[[int], Instrument]]] = {}
        carried = []
        for one in placed:
            kind = id(one.loaded), id(one.compiled)
            if kind not in calls:
                ground = self._workspace.ground(one.loaded, self.process.analysis(one.loaded))
                calls[kind] = ground, self._workspace.calls(ground, one.compiled)
            ground, call = calls[kind]
            self._last += 1
            want = Want(one.address, one.after, call(one.iid), self._last)
            carried.append((self._ledger.entry_at(ground, one.start), want))
        return carried

    @staticmethod
    def _without(carried: list[Carried], refused: Collection[int]) -> list[Carried]:
        """What is in force. A later plan might find room for what was refused, which nobody counts on then."""
        for entry, want in carried:
            if want.key in refused:
                entry.wants.pop(want.key, None)
        return [one for one in carried if one[1].key not in refused]

    def _in_the_way(self, mine: list[Carried], refused: Collection[int]) -> list[Carried]:
        """Those of mine that are taken out again, because others' would have had to go."""
        out: list[Carried] = []
        while (pushed := self._carried & set(refused)) and len(out) < len(mine):
            hit = [one for one in mine if one not in out and not pushed.isdisjoint(one[0].wants)]
            more = hit or [one for one in mine if one not in out]
            out += more
            refused = _refusals(self._ledger.remove([want.key for _, want in more])).keys()
        return out

    def take_out(self, carried: Collection[Carried]) -> None:
        """Raises TargetError, `busy` for one: they are in force as they were then."""
        keys = {want.key for _, want in carried}
        try:
            if keys:
                self._ledger.remove(keys)
        except TargetError:
            for entry, want in carried:
                entry.wants[want.key] = want
            raise
        self._carried -= keys

    def tidy(self) -> None:
        """Take out what nobody has got, because something went wrong on the way."""
        orphans, self._orphans = self._orphans, []
        try:
            self.take_out(orphans)
        except TargetError:
            self._orphans += orphans

    def inside(self) -> list[int]:
        """Blocks of threads that are in an instrument which wants it known."""
        assert isinstance(self.drain, Drain)
        return self.drain.inside()

    def forget(self, sources: Collection[str]) -> None:
        self._workspace.forget_linked(sources)

    def _look_after(self) -> None:
        """Handlers of signals that the program has installed since."""
        if self._carried and not self.closed:
            with contextlib.suppress(TargetError):
                wants = self._handlers()
                if wants:
                    self._add(wants)


def _refusals(result: Result) -> dict[int, str]:
    return {key: str(reason) for plan in result.plans for key, reason in plan.refusals.items()}
