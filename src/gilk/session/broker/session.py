# SPDX-License-Identifier: LGPL-2.1-or-later
"""The shared session of a process: several clients have probes in it, and the probes of one client come and go
together."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from gilk.errors import TargetError
from gilk.session.broker.messages import THREADS, ResolvedInsert
from gilk.session.entry import Entry
from gilk.session.ledger import Keys, Ledger
from gilk.session.onward import TimedProbe
from gilk.session.request import Builtin, GoesOn, ValuesAt
from gilk.session.session import InForce, Session
from gilk.session.staging import ChangeResult, Timed
from gilk.splice.host import ClientPart
from gilk.splice.instrument import Count, Instrument, Stamp, StampWithArguments, StampWithValues
from gilk.splice.plan import Refusal, Want
from gilk.splice.planner import PatchContext
from gilk.targets.base import Target
from gilk.targets.batch import Batch
from gilk.targets.workspace import Workspace
from gilk.toolchain.instrument import CompiledObject
from gilk.trace.clock import Clock
from gilk.trace.drain import Drain
from gilk.trace.layout import IID_BITS, PAGE, Geometry
from gilk.trace.parts import OF_TRACE, ClientParts
from gilk.values import dataclass

_RING = 4096  # bytes
_NO_CLOCK = Clock(0, 0, 1.0)  # there are no samples: clients record into memory of their own

Carried = tuple[Entry, Want]


@dataclass(frozen=True, slots=True)
class ClientRegion:
    """The memory of one client. ``address``: where its control page lies in the process."""

    part: ClientPart
    address: int


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcome of an insert. ``carried``: the probes that are in. By place in the request: why others are refused,
    and the tactics of those that are in force."""

    carried: list[Carried]
    refused: dict[int, str]
    tactics: dict[int, str]
    took: Timed


class ActiveProbes(Protocol):
    """The probes of one client that follows functions."""

    def holds(self, keys: Iterable[int]) -> set[int]:
        """The keys among these that belong to functions followed at present."""
        ...


class SharedSession(Session):
    """A session whose probes have keys, no numbers: each client knows which are its own."""

    def __init__(self, process: Target) -> None:
        super().__init__(process, points=1, threads=THREADS, ring=_RING, clock=_NO_CLOCK)
        assert isinstance(self.drain, Drain)
        self.data_address: int = process.keeper.data_address()
        self._parts = ClientParts(self.drain.geometry, self._workspace.data)
        self._carried: set[int] = set()
        self._orphans: list[Carried] = []
        self._last = 0
        self.following: ActiveProbes | None = None  # one client at most
        self._ranks: dict[int, int] = {}  # by key of a gate: -1: before other probes at its point, 1: after them

    @property
    def ledger(self) -> Ledger[Batch]:
        return self._ledger

    @property
    def workspace(self) -> Workspace:
        return self._workspace

    def take_keys(self, count: int) -> int:
        """Reserve ``count`` keys for wants; returns the first."""
        first, self._last = self._last + 1, self._last + count
        return first

    # Memory of clients.

    def open_region(self, address: int, geometry: Geometry, follows: bool = False) -> ClientRegion:
        """Make a client's memory a part of the session. ``follows``: it gets the number reserved for the client that
        follows.

        Raises TargetError `too-many-sessions`, `trace-alone`.
        """
        if follows and self.following is not None:
            raise TargetError(
                "trace-alone", f"another gilk trace follows process {self.process.pid}", "try again when it has ended"
            )
        rings = tuple((ring.offset, ring.size) for ring in geometry.rings)
        part = self._parts.add(address, OF_TRACE if follows else 0)
        return ClientRegion(ClientPart(part, PAGE, rings), address)

    def close_region(self, region: ClientRegion) -> None:
        """Remove a client's memory from the session, once its probes are out: from now on no call that still goes on
        makes a record there."""
        self._workspace.renew_serial(region.part.number)
        self._parts.remove(region.part.number)
        with contextlib.suppress(TargetError):  # those that stay do no harm, and go another time
            if unused := self._onward.unused():
                self._ledger.remove(unused)

    def remarks(self, keys: Iterable[int]) -> list[str]:
        """Remarks for the client that has the probes with these keys."""
        return self._onward.remarks(keys)

    def renew_parts(self) -> None:
        self._parts.renew()

    @property
    def parts_are_looked_at(self) -> bool:
        return self._parts.are_looked_at

    # Probes.

    def put_in(
        self, placed: Sequence[ResolvedInsert], region: ClientRegion | None = None, active: bool = True
    ) -> Outcomes:
        """Put probes in, in one change.

        Dormant probes in a function that has other probes, too, have no tactic yet. Raises as add().
        """
        first = self._last + 1
        mine = self._carry(placed, region)
        mine, others = self._timed(mine, placed, region)
        if active:
            result = self._add([*mine, *others, *self._handlers()])
        else:
            self._look_after()
            result = self._ledger.add([*mine, *others], active=False)
        self._orphans += mine  # until a client owns them
        refused = self._with_later(_refusals(result))
        reasons = {key - first: refused[key] for _, want in mine if (key := want.key) in refused}
        kept = self._without(mine, refused.keys())
        out = self._in_the_way([*kept, *others], refused.keys())
        refused |= self._with_later({want.key: str(Refusal.IN_ANOTHERS_WAY) for _, want in out})
        gone = {want.key for _, want in out}.intersection(want.key for _, want in mine)
        reasons |= {key - first: str(Refusal.IN_ANOTHERS_WAY) for key in gone}
        kept = [one for one in kept if one[1].key not in gone] if gone else kept
        if active:
            self._carried |= {want.key for _, want in kept}
        self._orphans.clear()
        return Outcomes(kept, reasons, _tactics(kept, first), result.outcome)

    def _carry(self, placed: Sequence[ResolvedInsert], region: ClientRegion | None) -> list[Carried]:
        """An entry and a want for each request. Requests for the same image and instrument share the values of both."""
        calls: dict[tuple[int, int], tuple[PatchContext, Callable[[int], Instrument]]] = {}
        carried = []
        for one in placed:
            kind = id(one.loaded), id(one.made)
            if kind not in calls:
                ground = self._workspace.ground(one.loaded, self.process.analysis(one.loaded))
                calls[kind] = ground, self._calls(ground, one.made, region)
            ground, call = calls[kind]
            self._last += 1
            want = Want(one.address, one.after, call(one.number), self._last)
            carried.append((self._ledger.entry_at(ground, one.start), want))
        return carried

    def _timed(
        self, mine: list[Carried], placed: Sequence[ResolvedInsert], region: ClientRegion | None
    ) -> tuple[list[Carried], list[Carried]]:  # fmt: skip
        """The probes with the instruments that timed calls need, and those of other places that they need besides."""
        if region is None or not any(isinstance(one.made, GoesOn) for one in placed):
            return mine, []
        above = region.part.number << IID_BITS
        timed = {
            n: TimedProbe(one.loaded, *carried, above | one.number, isinstance(one.made, GoesOn))
            for n, (one, carried) in enumerate(zip(placed, mine, strict=True))
            if isinstance(one.made, GoesOn) or one.made == Builtin.TIME
        }
        made, others = self._onward.wants(list(timed.values()), self._ledger.entry)
        changed = dict(zip(timed, made, strict=True))
        return [changed.get(n, carried) for n, carried in enumerate(mine)], others

    def _with_later(self, refused: dict[int, str]) -> dict[int, str]:
        """The refusals, and those of the changes that they make necessary, where other places than probes are
        refused."""
        latest = refused
        while again := self._onward.lose(latest):
            latest = _refusals(self._ledger.add(again))
            refused = refused | latest
        return refused

    def _calls(
        self, ground: PatchContext, made: CompiledObject | Builtin | ValuesAt | GoesOn, region: ClientRegion | None
    ) -> Callable[[int], Instrument]:
        """A function that makes the instrument with a given number."""
        if isinstance(made, CompiledObject):
            return self._workspace.calls(ground, made, region.address if region else 0)
        assert region is not None
        part = region.part
        match made:
            case Builtin.COUNT:
                return lambda number: Count(number - 1, part)
            case Builtin.STAMP | Builtin.TIME | GoesOn():
                return lambda number: Stamp(number, part)
            case Builtin.ARGS:
                return lambda number: StampWithArguments(number, part)
            case ValuesAt(places=places):
                return lambda number: StampWithValues(number, places, part)
            case Builtin.REGS:
                return lambda number: self._workspace.registers(ground, part.number << IID_BITS | number)

    @staticmethod
    def _without(carried: list[Carried], refused: Collection[int]) -> list[Carried]:
        """Drop the wants that were refused, and return the rest. A later plan might find room for a dropped want, in
        vain."""
        for entry, want in carried:
            if want.key in refused:
                entry.wants.pop(want.key, None)
        return [one for one in carried if one[1].key not in refused]

    def _in_the_way(self, mine: list[Carried], refused: Collection[int]) -> list[Carried]:
        """Take out those of the new probes for which probes of other clients would have to go; returns them."""
        out: list[Carried] = []
        while (pushed := self._had_by_others(refused)) and len(out) < len(mine):
            hit = [one for one in mine if one not in out and not pushed.isdisjoint(one[0].wants)]
            more = hit or [one for one in mine if one not in out]
            out += more
            refused = self._ledger.remove([want.key for _, want in more]).refusals.keys()
        return out

    def _had_by_others(self, keys: Collection[int]) -> set[int]:
        """The keys among these that belong to probes which were in force before the present change."""
        found = self.carries(keys)
        return found | self.following.holds(keys) if self.following is not None else found

    def carries(self, keys: Iterable[int]) -> set[int]:
        """The keys among these that belong to probes in force; functions that are followed do not count."""
        return self._carried.intersection(keys)

    def put_gate(self, gates: list[Carried], along: Keys, first: bool) -> dict[int, str]:
        """Put a gate in, and activate the followed probes ``along``, which are beside it.

        Returns the reasons of refusals by key; if a gate's own key is among them, nothing has changed. ``first``: the
        gate comes before other probes at its point.
        """
        keys = {want.key for _, want in gates}
        self._ranks.update(dict.fromkeys(keys, -1 if first else 1))
        result = self._ledger.add(gates, along=along, rank=lambda key: self._ranks.get(key, 0))
        refused = _refusals(result)
        pushed = self._had_by_others(refused.keys())
        if pushed or not keys.isdisjoint(refused):
            self._ledger.remove(keys)
            self._ledger.deactivate(along)
            return refused if not keys.isdisjoint(refused) else dict.fromkeys(keys, str(Refusal.IN_ANOTHERS_WAY))
        self._carried |= keys
        return refused

    def take_out(self, carried: Collection[Carried]) -> None:
        """Take probes out. Raises TargetError, for example `busy`; then they are still in force."""
        keys = {want.key for _, want in carried}
        if keys:
            self._with_later(_refusals(self._ledger.remove(keys)))
        self._carried -= keys
        for key in keys & self._ranks.keys():
            del self._ranks[key]

    def lose_image(self, path: Path, bias: int) -> None:
        """Forget all clients' probes in an unmapped image, in one change: to plan a function again for remaining probes
        would write to the image. Raises TargetError."""
        if not any((loaded.path, loaded.bias) == (path, bias) for loaded in self.process.loaded()):
            gone = self._ledger.keys_in(path, bias)
            self._ledger.remove(gone)
            self._carried -= gone

    def tidy(self) -> None:
        """Take out probes that no client owns, because something went wrong while they were put in."""
        orphans, self._orphans = self._orphans, []
        try:
            self.take_out(orphans)
        except TargetError:
            self._orphans += orphans

    def inside(self) -> list[int]:
        """The blocks of the threads that are in an instrument which reports that."""
        assert isinstance(self.drain, Drain)
        return self.drain.inside()

    def forget(self, sources: Collection[str]) -> None:
        self._workspace.forget_linked(sources)

    def look_after(self) -> None:
        """Put instruments at signal handlers that the program has installed since the last call."""
        self._look_after()

    def _in_force(self) -> InForce:
        """Each batch with its units in force; if a client follows functions, dormant units count, since these come and
        go all the time."""
        return self._ledger.in_force if self.following is None else self._ledger.held

    def _look_after(self) -> None:
        if (self._carried or self.following is not None) and not self.closed:
            with contextlib.suppress(TargetError):
                wants = self._handlers()
                if wants:
                    self._add(wants)


def _tactics(carried: Sequence[Carried], first: int) -> dict[int, str]:
    """The tactics of the probes, by place; dormant probes in functions with other probes have none."""
    known = {id(plan): plan.tactics for entry, _ in carried if (plan := entry.plan) is not None}
    rows = [(want.key, known.get(id(entry.plan), {})) for entry, want in carried]
    return {key - first: str(tactics[key]) for key, tactics in rows if key in tactics}


def _refusals(result: ChangeResult) -> dict[int, str]:
    return {key: str(reason) for key, reason in result.refusals.items()}
