# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions with their probes, which of them have to be planned together, and how a change of them is taken back."""

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
#: Some units of some batches, by the number of the batch.
Units = dict[int, set[int]]


@dataclass
class Entry:
    """A function of one image, by its start, and its probes by key, of which those in ``off`` are dormant.

    ``batch`` 0: there is no plan. Else the plan is that of ``unit`` in the batch.
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
        """Looked into when it is asked for."""
        span = self.ground.analysis.image.span_at(self.start)
        assert span is not None
        return self.ground.analysis.function(span)

    @property
    def active(self) -> set[int]:
        """The keys of the probes that are to be in force."""
        return self.wants.keys() - self.off

    @property
    def to_plan(self) -> list[Want]:
        """The probes that its plan is to have."""
        return [want for key, want in self.wants.items() if key not in self.off] or list(self.wants.values())

    def has_planned(self, keys: set[int]) -> bool:
        """Whether its plan has these probes and no others; what it had to refuse may not be wanted any more."""
        plan = self.plan
        return plan is not None and keys == plan.tactics.keys() | (plan.refusals.keys() & self.wants.keys())


@dataclass
class HeldBatch(Generic[B]):
    """A batch that the holder of the target has, and those of its units that are dormant or active: ``held``."""

    batch: B
    held: set[int]
    active: set[int] = field(default_factory=set)

    def wake(self, units: set[int]) -> None:
        """They are active, or about to be. Sets are replaced: what there was costs nothing, be it ten thousands."""
        self.active = self.active | units if self.active else units

    def sleep(self, units: set[int]) -> None:
        self.active = self.active - units


class Undo(Generic[B]):
    """One change of entries and batches, as a context: when it raises, all is as it was before.

    Plans made anew are not in force then, and those that they were to replace are.
    """

    def __init__(self, batches: dict[int, HeldBatch[B]], past: deque[B]) -> None:
        self._batches = batches
        self._past = past
        self._numbers = set(batches)
        self._before: dict[int, tuple[Entry, dict[int, Want], frozenset[int], FunctionPlan | None, int, int]] = {}
        self.activating: Units = {}

    def note(self, entries: Iterable[Entry]) -> None:
        """Keep the state of some entries, before anything of them changes."""
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
    """The entries that have to be planned again when some are: of ``every`` also those whose puns share bytes with code
    that is about to change, be it sites that there are, or a function that may get some.
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
    """A plan that was forgotten is in force after all."""
    for site in plan_.sites:
        start = site.address - ground.bias
        ground.registry.claim(start, start + len(site.new))
        ground.registry.write(start, site.new)
    for start, end in plan_.pinned:
        ground.registry.pin(start - ground.bias, end - ground.bias)


def _functions_at(entry: Entry) -> Iterator[tuple[int, int]]:
    """The functions of which the puns of an entry's plan share bytes, by ground and start."""
    assert entry.plan is not None
    bias, image = entry.ground.bias, entry.ground.analysis.image
    for low, high in entry.plan.pinned:
        for at in (low - bias, high - 1 - bias):
            span = image.span_at(at)
            if span is not None and span.start != entry.start:
                yield id(entry.ground), span.start


def _touches(ranges: tuple[tuple[int, int], ...], addresses: set[int]) -> bool:
    return any(address in addresses for low, high in ranges for address in range(low, high))
