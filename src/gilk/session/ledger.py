# SPDX-License-Identifier: LGPL-2.1-or-later
"""The ledger: which function carries which probes, and which of the probes are active.

All probes of a function are planned together: they share patches, links and bounces. To add or remove one, the ledger
undoes the function's old plan and does a new one, in one stop of the target.

A plan goes to the holder of the target as a *unit* of a batch. A unit is either active or dormant, which costs the
target nothing; it changes between the two without being planned again. The plan of a function with active and dormant
probes has the active ones; if all are dormant, it has them all. Units of a placed template (PlacedUnits) get an entry
only when something else is wanted of their function.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gilk.analysis.model import Function
from gilk.session.entry import Entry, HeldBatch, Undo, Units, with_dependents
from gilk.session.entry_planner import EntryPlanner
from gilk.session.staging import BatchChanger, Cache, ChangeResult, PlacedUnits, Planning, Stager, Timed, Untouched
from gilk.splice.instrument import CallOfGate, CallWithRegisters, Instrument
from gilk.splice.plan import FunctionPlan, Want
from gilk.splice.planner import PatchContext, forget, plan
from gilk.splice.policy import BESIDE, PROCESS

B = TypeVar("B")
T = TypeVar("T", bound=Timed)
Keys = Iterable[int] | NDArray[np.int64]
_REMEMBERED = 16


class Ledger(Generic[B]):
    """The functions of one session with their probes. Keys of wants are unique in it. A change that fails leaves
    everything as it was."""

    def __init__(
        self, workspace: Stager[B], keeper: BatchChanger, planning: Planning = plan, cache: Cache[B] | None = None
    ) -> None:
        self.planner = EntryPlanner(workspace, planning, cache)
        self._keeper = keeper
        self._entries: dict[tuple[int, int], Entry] = {}
        self._batches: dict[int, HeldBatch[B]] = {}
        self._placed: dict[int, PlacedUnits[B]] = {}
        self._taken: Units = {}  # units of placed templates that have an entry by now
        self._past: deque[B] = deque(maxlen=_REMEMBERED)
        self._expected: tuple[Units, list[tuple[Entry, set[int]]]] | None = None
        self._left_out: set[int] = set()
        #: Called before a change, and again after a change that takes something out.
        self.on_change: Callable[[], None] = lambda: None

    @property
    def batches(self) -> list[B]:
        """The batches whose code may run: all present ones, and the latest removed ones, which a forked child may still
        have."""
        return [*self._past, *(each.batch for each in self._batches.values())]

    @property
    def in_force(self) -> list[tuple[B, frozenset[int]]]:
        """Each batch with those of its units that are active, or about to be."""
        return [(each.batch, frozenset(each.active)) for each in self._batches.values()]

    @property
    def held(self) -> list[tuple[B, frozenset[int]]]:
        """Each batch with those of its units that are dormant or active."""
        return [(each.batch, frozenset(each.held)) for each in self._batches.values()]

    # Functions.

    def entry(self, ground: PatchContext, function: Function) -> Entry:
        return self.entry_at(ground, function.start)

    def entry_at(self, ground: PatchContext, start: int) -> Entry:
        """The entry of the function that begins at ``start``; it has the probes that a placed template carries
        there."""
        key = id(ground), start
        known = self._entries.get(key)
        if known is None or not known.wants:  # an entry without wants may be older than the template
            self._take_over(ground, start)
        if key not in self._entries:
            self._entries[key] = Entry(ground, start)
        return self._entries[key]

    def _take_over(self, ground: PatchContext, start: int) -> None:
        """Make entries of the placed units that have to be planned together with this function."""
        todo = [start]
        while todo:
            at = todo.pop()
            for number, placed in self._placed.items():
                taken = self._taken.setdefault(number, set())
                for unit in placed.touching(ground, at):
                    if unit not in taken:
                        taken.add(unit)
                        entry = placed.entry(ground, unit)
                        entry.off = frozenset() if unit in self._batches[number].active else frozenset(entry.wants)
                        self._entries[id(ground), entry.start] = entry
                        todo.append(entry.start)

    # Changes.

    def hold(self, placed: PlacedUnits[B]) -> None:
        """Take over the units of a placed template, all of them dormant."""
        self._placed[placed.number] = placed
        self._batches[placed.number] = HeldBatch(placed.batch, set(np.flatnonzero(placed.ready).tolist()))

    def give_up(self, placed: PlacedUnits[B]) -> NDArray[np.bool_]:
        """Give up all units of a placed template; all of its probes have to be dormant.

        Returns a mask of its units: those that no entry had taken over.
        """
        keys = placed.first + np.arange(len(placed.unit_of_key))
        _, entries = self._find(keys)
        if entries:
            self.remove(key for _, some in entries for key in some)
        left = self._batches[placed.number].held if placed.number in self._batches else set()
        rest = np.isin(np.arange(len(placed.ready)), list(left))
        gone = {placed.number: set(left)} if left else {}
        self._release(gone)
        self._drop(gone)
        self._placed.pop(placed.number, None)
        self._taken.pop(placed.number, None)
        return rest

    def lose(self, number: int) -> None:
        """Note that the image of a placed template was unmapped: no more is planned for its functions."""
        self._placed.pop(number, None)

    def add(
        self, wants: Iterable[tuple[Entry, Want]], active: bool = True, along: Keys = (),
        rank: Callable[[int], int] | None = None,
    ) -> ChangeResult:  # fmt: skip
        """Add probes, active or dormant, and activate the probes with keys ``along`` in the same change.

        ``rank``, of a key: sorts all probes of the functions that get some; of several at one point, the lowest is met
        first.
        """
        fresh = list(wants)
        with self._undone_if_it_fails() as undo:
            units, changed = self._turn(along, True, undo)
            undo.note(entry for entry, _ in fresh)
            for entry, want in fresh:
                entry.wants[want.key] = want
                entry.off = entry.off - {want.key} if active else entry.off | {want.key}
                changed[id(entry)] = entry
            if rank is not None:
                for entry in {id(entry): entry for entry, _ in fresh}.values():
                    entry.wants = dict(sorted(entry.wants.items(), key=lambda item: rank(item[0])))
            settled = () if active else self._let_sleep({id(entry.ground): entry.ground for entry, _ in fresh}.values())
            return self._change([*changed.values(), *settled], {}, units, undo)

    def save_everything(self) -> ChangeResult:
        """Plan functions again, since patches have to save all registers from now on. Functions in which all
        instruments do so anyway are left alone, and those with a gate: the thread on whose behalf this is done may be
        waiting there. A gate's other instruments save what its function reads."""
        with self._undone_if_it_fails() as undo:
            every = [(entry, [want.instrument for want in entry.wants.values()]) for entry in self._entries.values()]
            entries = [entry for entry, made in every if not all(map(_saves_all, made)) and not any(map(_holds, made))]
            return self._change(entries, {}, {}, undo)

    def remove(self, keys: Iterable[int]) -> ChangeResult:
        """Remove probes, whether they are active or dormant."""
        gone = set(keys)
        changed = [e for e in self._entries.values() if not gone.isdisjoint(e.wants)]
        with self._undone_if_it_fails() as undo:
            undo.note(changed)
            for entry in changed:
                for key in gone & entry.wants.keys():
                    del entry.wants[key]
                entry.off -= gone
            return self._change(changed, {}, {}, undo)

    def activate(self, keys: Keys) -> ChangeResult:
        """Make these probes active; those that are active stay so."""
        with self._undone_if_it_fails() as undo:
            units, again = self._turn(keys, True, undo)
            return self._change(list(again.values()), {}, units, undo)

    def deactivate(self, keys: Keys) -> ChangeResult:
        """Make these probes dormant."""
        with self._undone_if_it_fails() as undo:
            units, again = self._turn(keys, False, undo)
            return self._change(list(again.values()), units, {}, undo)

    def _turn(self, keys: Keys, on: bool, undo: Undo[B]) -> tuple[Units, dict[int, Entry]]:
        """Note that probes are to be active, or dormant; returns the units that have to change, and the entries to plan
        again, by id."""
        units, entries = self._find(keys)
        undo.note(entry for entry, _ in entries)
        again: dict[int, Entry] = {}
        if not on:
            grounds = {id(entry.ground): entry.ground for entry, _ in entries}.values()
            again = {id(entry): entry for entry in self._let_sleep(grounds)}
        for entry, some in entries:
            entry.off = entry.off - some if on else entry.off | some
            active = entry.active
            if active and not entry.has_planned(active):
                again[id(entry)] = entry
            elif entry.batch and id(entry) not in again and bool(active) is on:
                units.setdefault(entry.batch, set()).add(entry.unit)
        found = {
            n: some - self._batches[n].active if on else some & self._batches[n].active for n, some in units.items()
        }
        return _some(found), again

    def _find(self, keys: Keys) -> tuple[Units, list[tuple[Entry, set[int]]]]:
        """The units of placed templates that carry these probes; and the other entries that carry some, each with the
        keys of these."""
        wanted = np.asarray(keys if isinstance(keys, np.ndarray) else list(keys), np.int64)
        units: Units = {}
        rest = np.ones(len(wanted), np.bool_)
        for number, placed in self._placed.items():
            here = np.flatnonzero((wanted >= placed.first) & (wanted < placed.first + len(placed.unit_of_key)))
            found = placed.unit_of_key[wanted[here] - placed.first]
            mine = found >= 0
            if taken := self._taken.get(number):
                mine &= ~np.isin(found, list(taken))
            units[number] = set(np.unique(found[mine]).tolist())
            rest[here[mine]] = False
        others = set(wanted[rest].tolist())
        entries = [(e, some) for e in self._entries.values() if (some := others & e.wants.keys())] if others else []
        return units, entries

    def _let_sleep(self, grounds: Iterable[PatchContext]) -> Iterator[Entry]:
        """Note that splices of these grounds come and go from now on; yields the entries to plan again: their puns
        depend on bytes of other splices."""
        for ground in grounds:
            if ground.policy == PROCESS:
                ground.policy = BESIDE
                yield from (e for e in self._entries.values() if e.ground is ground and e.plan and e.plan.pinned)

    # Probes that will be activated.

    def units(self, keys: Keys) -> Units:
        """The units that carry these probes, both active and dormant."""
        units, entries = self._find(keys)
        for entry, _ in entries:
            if entry.batch:
                units.setdefault(entry.batch, set()).add(entry.unit)
        return _some(units)

    def expect(self, keys: Keys) -> Units:
        """Note that ``begin`` will activate these probes; returns the units that it will activate.

        A probe is left out if its function's plan has other probes that are to stay dormant; see ``left_out``.
        """
        self.on_change()
        units, entries = self._find(keys)
        ready = [(e, some) for e, some in entries if e.batch and e.has_planned(e.active | some)]
        self._left_out = {key for _, some in entries for key in some} - {key for _, some in ready for key in some}
        for entry, _ in ready:
            units.setdefault(entry.batch, set()).add(entry.unit)
        units = {n: idle for n, some in units.items() if (idle := some - self._batches[n].active)}
        self._expected = units, ready
        return units

    @property
    def left_out(self) -> set[int]:
        """The keys given to the last expect() that ``begin`` will not activate, since their functions have to be
        planned again: other probes of these functions are active."""
        return self._left_out

    def keys_in(self, path: Path, bias: int) -> set[int]:
        """The keys of all probes of functions of an image, except functions that only a placed template carries."""
        there = (e for e in self._entries.values() if (e.ground.analysis.image.path, e.ground.bias) == (path, bias))
        return {key for entry in there for key in entry.wants}

    def beside(self, keys: Iterable[int]) -> set[int]:
        """The keys of all probes of the functions that have some of these, except functions that only a placed template
        carries."""
        wanted = set(keys)
        return {key for e in self._entries.values() if not wanted.isdisjoint(e.wants) for key in e.wants}

    @property
    def expects(self) -> bool:
        """Whether something is expected, and no other change of its units has come in between."""
        return self._expected is not None

    def begin(self, change: Callable[[], T]) -> T:
        """Activate the expected probes by calling ``change``, which raises if nothing has changed; returns its
        result."""
        assert self._expected is not None
        units, entries = self._expected
        with self._undone_if_it_fails() as undo:
            undo.note(entry for entry, _ in entries)
            for entry, some in entries:
                entry.off -= some
            return self._apply({}, units, undo, change)

    # Carrying out changes.

    def _undone_if_it_fails(self) -> Undo[B]:
        return Undo(self._batches, self._past)

    def _change(self, entries: list[Entry], remove: Units, add: Units, undo: Undo[B]) -> ChangeResult:
        """Plan entries again, and exchange the units ``remove`` for ``add`` in the same change."""
        entries = with_dependents(entries, self._entries.values())
        undo.note(entries)
        gone: Units = {}
        for entry in entries:
            if entry.batch and entry.plan:
                gone.setdefault(entry.batch, set()).add(entry.unit)
                forget(entry.ground, entry.plan)
            entry.plan, entry.batch = None, 0
        self._release(gone)
        add = {number: units - gone.get(number, set()) for number, units in add.items()}
        for number, units in gone.items():
            going = remove.get(number, set()) | units
            remove = {**remove, number: going & self._batches[number].active}
        plans: list[FunctionPlan] = []
        for made in self.planner.plan([e for e in entries if e.wants]):
            self._batches[made.number] = HeldBatch(made.batch, {unit for _, unit, _ in made.rows})
            add[made.number] = {unit for entry, unit, _ in made.rows if entry.active}
            for entry, unit, function_plan in made.rows:
                entry.plan, entry.batch, entry.unit = function_plan, made.number, unit
                plans.append(function_plan)
        outcome = self._exchange(_some(remove), _some(add), undo)
        self._release(gone)
        self._drop(gone)
        return ChangeResult(tuple(plans), outcome)

    def _exchange(self, remove: Units, add: Units, undo: Undo[B]) -> Timed:
        if not (remove or add):
            return Untouched()
        self._overtake({**remove, **add})
        return self._apply(remove, add, undo, lambda: self._keeper.change(remove, add))

    def _apply(self, remove: Units, add: Units, undo: Undo[B], change: Callable[[], T]) -> T:
        undo.activating = add
        for number, units in add.items():
            self._batches[number].wake(units)
        self.on_change()
        outcome = change()
        for number, units in remove.items():
            self._batches[number].sleep(units)
        if remove:
            self.on_change()
        return outcome

    def _release(self, gone: Units) -> None:
        """Have the holder give up those of the units that are dormant."""
        dormant = {n: units - self._batches[n].active for n, units in gone.items()}
        if some := _some(dormant):
            self._keeper.give_up(some)

    def _drop(self, gone: Units) -> None:
        """Forget units that no entry carries any more."""
        self._overtake(gone)
        for number, units in gone.items():
            self._batches[number].held -= units
            if not self._batches[number].held:
                self._keeper.forget(number)
                self._past.append(self._batches.pop(number).batch)
                self._placed.pop(number, None)  # by now, entries have all units of this template

    def _overtake(self, changed: Units) -> None:
        """Expect nothing any more if some of the expected units change."""
        if self._expected is not None:
            units, _ = self._expected
            if any(not some.isdisjoint(units.get(number, ())) for number, some in changed.items()):
                self._expected = None


def _saves_all(instrument: Instrument | None) -> bool:
    return isinstance(instrument, CallWithRegisters)


def _holds(instrument: Instrument | None) -> bool:
    return isinstance(instrument, CallOfGate)


def _some(units: Units) -> Units:
    """The same, without batches that have no units."""
    return {number: some for number, some in units.items() if some}
