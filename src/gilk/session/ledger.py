# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which function carries which probes, so that a function can be planned again as a whole.

All probes of a function are planned together: they share patches, links and
bounces. To add or take away one, the function's old plan is undone and a new
one done, in one stop of the target.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from gilk.analysis.model import Function
from gilk.session.staging import Planning, Stager, staged
from gilk.splice.plan import FunctionPlan, Want
from gilk.splice.planner import PatchContext, forget, plan
from gilk.values import dataclass

B = TypeVar("B")
_Kept = TypeVar("_Kept", covariant=True)


class Timed(Protocol):
    """How long a change took, in seconds, and how long of that the target stood still."""

    @property
    def total(self) -> float: ...
    @property
    def seconds(self) -> float: ...


class Changer(Protocol):
    """Who holds the target, and exchanges units of some batches for those of others."""

    def change(self, remove: dict[int, set[int]], add: dict[int, set[int]]) -> Timed: ...

    def forget(self, number: int) -> None: ...


class Shelf(Protocol[_Kept]):
    """Plans that were made before, for some of what is wanted."""

    def take(self, ground: PatchContext, entries: Iterable[Entry]) -> Staged[_Kept] | None:
        """What there is for some of the entries, staged, its sites claimed; None when there is nothing."""
        ...


_REMEMBERED = 16


@dataclass
class Entry:
    """A function of one image, by its start, and what it carries; ``batch`` 0: nothing is in force."""

    ground: PatchContext
    start: int
    wants: dict[int, Want] = field(default_factory=dict)
    plan: FunctionPlan | None = None
    batch: int = 0
    unit: int = 0

    @cached_property
    def function(self) -> Function:
        """Looked into when it is asked for."""
        span = self.ground.analysis.image.span_at(self.start)
        assert span is not None
        return self.ground.analysis.function(span)


@dataclass(frozen=True)
class Staged(Generic[_Kept]):
    """A batch that is ready under its number: the entries that it is for, each with its unit and its plan."""

    number: int
    batch: _Kept
    rows: list[tuple[Entry, int, FunctionPlan]]


@dataclass(frozen=True)
class Result:
    """What came of a change: the plans made, how long the target stood still."""

    plans: tuple[FunctionPlan, ...]
    outcome: Timed


class Ledger(Generic[B]):
    """One per session. Keys of wants are unique in it."""

    def __init__(
        self, workspace: Stager[B], keeper: Changer, planning: Planning = plan, shelf: Shelf[B] | None = None
    ) -> None:
        self._workspace = workspace
        self._keeper = keeper
        self._planning = planning
        self._shelf = shelf
        self._entries: dict[tuple[int, int], Entry] = {}
        self._units: dict[int, set[int]] = {}
        self._staged: dict[int, B] = {}
        self._past: deque[B] = deque(maxlen=_REMEMBERED)
        #: Before a change, and after one by which something goes.
        self.on_change: Callable[[], None] = lambda: None

    @property
    def batches(self) -> list[B]:
        """What may be run: all that is in force, and the last that were, which a forked child may still have."""
        return [*self._past, *self._staged.values()]

    @property
    def in_force(self) -> list[tuple[B, frozenset[int] | None]]:
        """The batches with those of their units that are, or None for all; also what is about to be."""
        return [(made, frozenset(self._units[n]) if n in self._units else None) for n, made in self._staged.items()]

    def entry(self, ground: PatchContext, function: Function) -> Entry:
        return self.entry_at(ground, function.start)

    def entry_at(self, ground: PatchContext, start: int) -> Entry:
        """Of the function that begins there."""
        key = (id(ground), start)
        if key not in self._entries:
            self._entries[key] = Entry(ground, start)
        return self._entries[key]

    def add(self, wants: Iterable[tuple[Entry, Want]]) -> Result:
        changed: dict[int, Entry] = {}
        fresh = list(wants)
        for entry, want in fresh:
            entry.wants[want.key] = want
            changed[id(entry)] = entry
        try:
            return self._change(list(changed.values()))
        except BaseException:
            for entry, want in fresh:
                entry.wants.pop(want.key, None)
            raise

    def renew(self) -> Result:
        """Plan everything again: what plans are made of has changed."""
        return self._change([entry for entry in self._entries.values() if entry.wants])

    def remove(self, keys: Iterable[int]) -> Result:
        gone = set(keys)
        changed = [e for e in self._entries.values() if not gone.isdisjoint(e.wants)]
        for entry in changed:
            for key in gone & entry.wants.keys():
                del entry.wants[key]
        return self._change(changed)

    def _change(self, entries: list[Entry]) -> Result:
        entries = self._with_dependents(entries)
        before = [(entry, entry.plan, entry.batch, entry.unit) for entry in entries]
        try:
            return self._exchange(entries)
        except BaseException:
            self._back(before)
            raise

    @staticmethod
    def _back(before: list[tuple[Entry, FunctionPlan | None, int, int]]) -> None:
        """As it was before a change that failed: what was planned anew is not in force, what it was to replace is."""
        for entry, plan_, _, _ in before:
            if entry.plan is not None and entry.plan is not plan_:
                forget(entry.ground, entry.plan)
        for entry, plan_, batch, unit in before:
            if plan_ is not None and batch and entry.plan is not plan_:
                _recall(entry.ground, plan_)
            entry.plan, entry.batch, entry.unit = plan_, batch, unit

    def _exchange(self, entries: list[Entry]) -> Result:
        remove: dict[int, set[int]] = {}
        for entry in entries:
            if entry.batch and entry.plan:
                remove.setdefault(entry.batch, set()).add(entry.unit)
                forget(entry.ground, entry.plan)
            entry.plan, entry.batch = None, 0
        add: dict[int, set[int]] = {}
        plans: list[FunctionPlan] = []
        for made in self._plan([e for e in entries if e.wants]):
            self._staged[made.number] = made.batch
            add[made.number] = {unit for _, unit, _ in made.rows}
            for entry, unit, function_plan in made.rows:
                entry.plan, entry.batch, entry.unit = function_plan, made.number, unit
                plans.append(function_plan)
        self.on_change()
        try:
            outcome = self._keeper.change(remove, add)
        except BaseException:
            self._past.extend(self._staged.pop(number) for number in add)
            raise
        self._settle(remove, add)
        if remove:
            self.on_change()
        return Result(tuple(plans), outcome)

    def _plan(self, entries: list[Entry]) -> Iterator[Staged[B]]:
        """Plan and stage, image by image."""
        grounds = {id(e.ground): e.ground for e in entries}
        for ground in grounds.values():
            here = [e for e in entries if e.ground is ground]
            kept = self._shelf.take(ground, here) if self._shelf is not None else None
            if kept is not None:
                yield kept
                here = [e for e in here if e.plan is None]  # those that were kept have one by now
            if here:
                yield self._fresh(ground, here)

    def _fresh(self, ground: PatchContext, entries: list[Entry]) -> Staged[B]:
        order = sorted(entries, key=lambda e: -e.start)
        wanted = [(e.function, list(e.wants.values())) for e in order]
        made, number, batch = staged(ground, wanted, self._workspace, self._planning)
        rows = [(entry, unit, made_of) for unit, (entry, made_of) in enumerate(zip(order, made.functions, strict=True))]
        return Staged(number, batch, rows)

    def _settle(self, remove: dict[int, set[int]], add: dict[int, set[int]]) -> None:
        for number, units in add.items():
            self._units[number] = set(units)
        for number, units in remove.items():
            self._units[number] -= units
            if not self._units[number]:
                del self._units[number]
                self._keeper.forget(number)
                self._past.append(self._staged.pop(number))

    def _with_dependents(self, entries: list[Entry]) -> list[Entry]:
        """Those whose puns share bytes with code that is about to change have to be planned again too: with sites there
        are, or with a function that may get some.
        """
        chosen = {id(e): e for e in entries}
        pinning = [e for e in self._entries.values() if e.plan and e.plan.pinned]
        grown = bool(pinning)
        while grown:
            changing = {
                b
                for e in chosen.values()
                if e.plan
                for s in e.plan.sites
                for b in range(s.address, s.address + len(s.new))
            }
            functions = {(id(e.ground), e.start) for e in chosen.values() if e.wants}
            more = [
                e for e in pinning
                if id(e) not in chosen and e.plan
                and (_touches(e.plan.pinned, changing) or not functions.isdisjoint(_functions_at(e)))
            ]  # fmt: skip
            chosen.update({id(e): e for e in more})
            grown = bool(more)
        return list(chosen.values())


def _recall(ground: PatchContext, plan_: FunctionPlan) -> None:
    """A plan that was forgotten is in force after all."""
    for site in plan_.sites:
        start = site.address - ground.bias
        ground.registry.claim(start, start + len(site.new))
        ground.registry.write(start, site.new)
    for start, end in plan_.pinned:
        ground.registry.pin(start - ground.bias, end - ground.bias)


def _functions_at(entry: Entry) -> Iterator[tuple[int, int]]:
    """Whose bytes the puns of an entry's plan share, by ground and start."""
    assert entry.plan is not None
    bias, image = entry.ground.bias, entry.ground.analysis.image
    for low, high in entry.plan.pinned:
        for at in (low - bias, high - 1 - bias):
            span = image.span_at(at)
            if span is not None and span.start != entry.start:
                yield id(entry.ground), span.start


def _touches(ranges: tuple[tuple[int, int], ...], addresses: set[int]) -> bool:
    return any(address in addresses for low, high in ranges for address in range(low, high))
