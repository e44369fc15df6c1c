# SPDX-License-Identifier: LGPL-2.1-or-later
"""The entries of a ledger: functions with their probes; which entries have to be planned together, and how a change of
entries is undone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import field
from functools import cached_property
from types import TracebackType
from typing import Generic, Self, TypeVar

from gilk.analysis.model import Function
from gilk.splice.plan import FunctionPlan, Want
from gilk.splice.planner import PatchContext, forget
from gilk.values import dataclass

B = TypeVar("B")
#: Some units of some batches: the batch's number, and the numbers of its units.
Units = dict[int, set[int]]


@dataclass
class Entry:
    """A function of one image, which begins at ``start``, with its probes by key; the keys in ``off`` are of dormant
    ones.

    ``plan`` is unit ``unit`` of the batch with number ``batch``; 0 means that there is no plan.
    """

    ground: PatchContext
    start: int
    wants: dict[int, Want] = field(default_factory=dict)
    plan: FunctionPlan | None = None
    batch: int = 0
    unit: int = 0
    off: frozenset[int] = frozenset()

    @cached_property
    def function(self) -> Function:
        """The function, which is analysed at the first call."""
        span = self.ground.analysis.image.span_at(self.start)
        assert span is not None
        return self.ground.analysis.function(span)

    @property
    def active(self) -> set[int]:
        """The keys of the probes that are to be active."""
        return self.wants.keys() - self.off

    @property
    def to_plan(self) -> list[Want]:
        """The probes to plan: the active ones, or all if all are dormant."""
        return [want for key, want in self.wants.items() if key not in self.off] or list(self.wants.values())

    def has_planned(self, keys: set[int]) -> bool:
        """Whether the plan has just these probes. Probes that it refused count, unless they are not wanted any more."""
        plan = self.plan
        return plan is not None and keys == plan.tactics.keys() | (plan.refusals.keys() & self.wants.keys())


@dataclass
class HeldBatch(Generic[B]):
    """A batch that the holder of the target has. ``held``: its units that are dormant or active; ``active``: those that
    are active."""

    batch: B
    held: set[int]
    active: set[int] = field(default_factory=set)

    def wake(self, units: set[int]) -> None:
        """Note that units are active, or about to be. The set is replaced, not copied, if none was active: there may be
        tens of thousands."""
        self.active = self.active | units if self.active else units

    def sleep(self, units: set[int]) -> None:
        self.active = self.active - units


class Undo(Generic[B]):
    """One change of entries and batches, as a context: if it raises, entries and batches are as they were before.

    New plans are not in force then, and the plans that they were to replace are.
    """

    def __init__(self, batches: dict[int, HeldBatch[B]], past: deque[B]) -> None:
        self._batches = batches
        self._past = past
        self._numbers = set(batches)
        self._before: dict[int, tuple[Entry, dict[int, Want], frozenset[int], FunctionPlan | None, int, int]] = {}
        self.activating: Units = {}

    def note(self, entries: Iterable[Entry]) -> None:
        """Save the state of some entries; call it before they change."""
        for e in entries:
            if id(e) not in self._before:
                self._before[id(e)] = e, dict(e.wants), e.off, e.plan, e.batch, e.unit

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._undo()

    def _undo(self) -> None:
        for number, units in self.activating.items():
            self._batches[number].sleep(units)
        changed = [state for state in self._before.values() if state[0].plan is not state[3]]
        for entry, *_ in changed:
            if entry.plan is not None:
                forget(entry.ground, entry.plan)
        for entry, _, _, plan, batch, _ in changed:
            if plan is not None and batch:
                _recall(entry.ground, plan)
        for entry, wants, off, plan, batch, unit in self._before.values():
            entry.wants, entry.off, entry.plan, entry.batch, entry.unit = wants, off, plan, batch, unit
        for number in self._batches.keys() - self._numbers:
            self._past.append(self._batches.pop(number).batch)


def with_dependents(entries: Iterable[Entry], every: Iterable[Entry]) -> list[Entry]:
    """The entries that have to be planned again when ``entries`` are.

    They are these, and those of ``every`` whose puns share bytes with code that is about to change: with sites of their
    plans, or with functions that may get sites.
    """
    chosen = {id(e): e for e in entries}
    if not chosen:
        return []
    pinning = [e for e in every if e.plan and e.plan.pinned]
    grown = bool(pinning)
    while grown:
        changing = {
            b for e in chosen.values() if e.plan for s in e.plan.sites for b in range(s.address, s.address + len(s.new))
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
    """Put a plan that was forgotten back in force."""
    for site in plan_.sites:
        start = site.address - ground.bias
        ground.registry.claim(start, start + len(site.new))
        ground.registry.write(start, site.new)
    for start, end in plan_.pinned:
        ground.registry.pin(start - ground.bias, end - ground.bias)


def _functions_at(entry: Entry) -> Iterator[tuple[int, int]]:
    """The functions whose bytes the puns of the entry's plan share, as pairs of the ground's id and the start."""
    assert entry.plan is not None
    bias, image = entry.ground.bias, entry.ground.analysis.image
    for low, high in entry.plan.pinned:
        for at in (low - bias, high - 1 - bias):
            span = image.span_at(at)
            if span is not None and span.start != entry.start:
                yield id(entry.ground), span.start


def _touches(ranges: tuple[tuple[int, int], ...], addresses: set[int]) -> bool:
    return any(address in addresses for low, high in ranges for address in range(low, high))
