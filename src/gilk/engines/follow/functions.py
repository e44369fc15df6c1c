# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions of an image that can be followed, dormant in a process: from a template, or planned one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gilk.session.entry import Entry
from gilk.session.request import Wanted
from gilk.splice.instrument import Stamp
from gilk.splice.plan import FunctionPlan, Refusal, Want
from gilk.splice.planner import PatchContext
from gilk.splice.template import ENTRY, HEAD, RETURN, Array, PlanTemplate, pinned
from gilk.targets.base import Loaded
from gilk.targets.batch import Batch
from gilk.targets.templates import PlacedBatch, plans
from gilk.targets.workspace import Workspace
from gilk.trace.probes import ProbeRow, RecordKind
from gilk.values import dataclass

Int = NDArray[np.int64]
_KINDS = {ENTRY: RecordKind.ENTRY, HEAD: RecordKind.HEAD, RETURN: RecordKind.RETURN}


@dataclass(frozen=True, slots=True)
class Unfit:
    """A function of which some probe was refused, and why; ``start`` is its link-time address."""

    start: int
    name: str
    reason: str


@dataclass(frozen=True)
class PlacedTiming:
    """A placed template of the timing of all functions of an image, as the ledger holds it.

    The iids of its probes are from ``first + 1`` on, whether or not their units are ready.
    """

    loaded: Loaded
    template: PlanTemplate
    first: int
    placed: PlacedBatch

    @property
    def number(self) -> int:
        return self.placed.number

    @property
    def batch(self) -> Batch:
        return self.placed.batch

    @property
    def ready(self) -> NDArray[np.bool_]:
        return self.placed.units

    @cached_property
    def unit_of_key(self) -> Int:
        rows = self.template.row_unit
        return np.where(self.ready[rows], rows, -1).astype(np.int64)

    def touching(self, ground: PatchContext, start: int) -> list[int]:
        image = ground.analysis.image
        span = image.span_at(start)
        if span is None or image.path != self.loaded.path or ground.bias != self.loaded.bias:
            return []
        low, high, unit = self._pinned
        units = {*np.flatnonzero(self.template.unit_start == start).tolist()}
        units.update(unit[(low < span.end) & (span.start < high)].tolist())
        return [one for one in sorted(units) if self.ready[one]]

    @cached_property
    def _pinned(self) -> tuple[Array, Array, Array]:
        return pinned(self.template)

    def entry(self, ground: PatchContext, unit: int) -> Entry:
        template = self.template
        rows = np.flatnonzero(template.row_unit == unit).tolist()
        wants = {self.first + row: self._want(row) for row in rows}
        keys = {row: self.first + row for row in rows}
        made = plans(template, self.placed.new, ground.bias, keys)[unit]
        return Entry(ground, int(template.unit_start[unit]), wants, made, self.number, unit)

    def _want(self, row: int) -> Want:
        template, key = self.template, self.first + row
        return Want(int(template.row_address[row]), bool(template.row_after[row]), Stamp(key + 1), key)

    @cached_property
    def cramped(self) -> set[int]:
        """Link-time starts of functions that are not ready since they lack room; see PlanTemplate.cramped()."""
        template = self.template
        return set(template.unit_start[template.unit_owner[template.cramped()]].tolist())

    @property
    def rows(self) -> list[ProbeRow]:
        """The meaning of the iids, in their order."""
        template, image, names = self.template, self.loaded.name, self.template.unit_names
        owner = template.unit_owner[template.row_unit]
        columns = (column.tolist() for column in (template.row_unit, owner, template.row_kind, template.row_block))
        return [
            ProbeRow(
                iid, f"{image}:{names[unit]}:{f'@{block}:post' if kind == RETURN else 'entry'}", names[function], image,
                _KINDS[kind],
            )
            for iid, (unit, function, kind, block) in enumerate(zip(*columns, strict=True), self.first + 1)
        ]  # fmt: skip


def place_timing(
    workspace: Workspace, loaded: Loaded, template: PlanTemplate, first: int, starts: set[int]
) -> PlacedTiming | None:
    """Stage the functions of an image that begin at one of ``starts``, but for cramped ones; None when there is no room
    for them.

    ``first``: the key of the first probe. Raises TargetError as the keeper does.
    """
    chosen = template.entered() & ~template.cramped()
    chosen &= np.isin(template.unit_start[template.unit_owner], list(starts))
    iids = np.arange(first + 1, first + 1 + template.rows)
    placed = workspace.place(loaded, template, iids, chosen, comes_and_goes=True)
    return PlacedTiming(loaded, template, first, placed) if placed is not None else None


@dataclass(frozen=True)
class Functions:
    """Functions of an image that can be followed: a function has its index in ``names``.

    ``rows``: what all iids mean, in their order, and ``asked`` how many of them are of functions that are, or might be,
    ready. ``keys``: of the probes of the functions, one function behind the other, and ``sizes`` how many each has.
    ``entries``: the iid of each function's entry. ``unfit``: functions that cannot be followed. ``unended``: functions
    that are, but of which some return cannot be recorded. ``outcomes``: points by tactic, and by reason for which they
    are refused. ``number``: that of the batch, if they have one of their own.
    """

    loaded: Loaded
    names: list[str]
    starts: list[int]
    rows: Sequence[ProbeRow]
    asked: int
    keys: Int
    sizes: Int
    entries: Int
    unfit: list[Unfit]
    unended: list[Unfit]
    outcomes: tuple[dict[str, int], dict[str, int]]
    number: int = 0


def of_template(made: PlacedTiming, wanted: set[int]) -> Functions:
    """The functions of a placed template that are ready. ``wanted``: starts of those that there were to be."""
    template, ready = made.template, made.ready
    own = template.unit_owner == np.arange(len(template.unit_owner))
    functions = np.flatnonzero(ready & own)
    here = np.full(len(own), -1, np.int64)
    here[functions] = np.arange(len(functions))
    keys, sizes = _by_function(here[template.unit_owner[template.row_unit]], len(functions))
    heads = np.flatnonzero(template.row_kind != RETURN)
    entries = np.zeros(len(functions), np.int64)
    entered = here[template.unit_owner[template.row_unit[heads]]]
    entries[entered[entered >= 0]] = heads[entered >= 0] + made.first + 1
    lacking = _lacking(template, own, ready, wanted)
    cramped = template.cramped()[template.row_unit]
    outcomes = template.outcomes(ready[template.row_unit])[0], template.outcomes(~cramped)[1]
    return Functions(
        made.loaded, [template.unit_names[unit] for unit in functions.tolist()],
        template.unit_start[functions].tolist(), made.rows, int(np.count_nonzero(~cramped)), keys + made.first, sizes,
        entries, [one for unit, one in lacking if not ready[unit]], [one for unit, one in lacking if ready[unit]],
        outcomes, made.number,
    )  # fmt: skip


def _by_function(function: Array, count: int) -> tuple[Int, Int]:
    """The rows of each of ``count`` functions, one function behind the other, and how many each has. ``function``: that
    of each row, or -1."""
    rows = np.flatnonzero(function >= 0)
    return rows[np.argsort(function[rows], kind="stable")], np.bincount(function[rows], minlength=count)


def _lacking(template: PlanTemplate, own: Array, ready: Array, wanted: set[int]) -> list[tuple[int, Unfit]]:
    """The functions of ``wanted`` that are not ready, or lack some probe, each with the number of its unit.

    A function that has a plan, and is not ready all the same, finds no room here for its splices.
    """
    starts, reasons, names = template.unit_start.tolist(), template.reasons(), template.unit_names
    some = [n for n in np.flatnonzero(own).tolist() if starts[n] in wanted and (n in reasons or not ready[n])]
    return [(n, Unfit(starts[n], names[n], reasons.get(n, str(Refusal.NO_ROOM)))) for n in some]


def of_plans(
    loaded: Loaded, groups: list[list[Wanted]], rows: list[ProbeRow], made: Iterable[FunctionPlan]
) -> Functions:
    """Functions that were planned one by one. ``groups``: for each its entry and its returns; ``rows`` are those of all
    of them, in order."""
    keys = {row.iid - 1 for row in rows}
    tactics, refusals = dict[int, str](), dict[int, str]()
    for plan in made:
        tactics.update((key, tactic) for key, tactic in plan.tactics.items() if key in keys)
        refusals.update((key, str(why)) for key, why in plan.refusals.items() if key in keys)
    numbers = iter(rows)
    own = [[next(numbers).iid - 1 for _ in group] for group in groups]
    reasons = [[refusals[key] for key in some if key in refusals] for some in own]
    # As PlanTemplate.entered() has it.
    fit = [
        not reasons[n] or (groups[n][0].kind != RecordKind.HEAD and some[0] not in refusals)
        for n, some in enumerate(own)
    ]
    lacking = [
        (n, Unfit(groups[n][0].function.start, groups[n][0].point.function, why[0]))
        for n, why in enumerate(reasons)
        if why
    ]
    order = [n for n in range(len(groups)) if fit[n]]
    function = _function_of_rows(groups, {n: at for at, n in enumerate(order)})
    where, sizes = _by_function(function, len(order))
    return Functions(
        loaded, [groups[n][0].point.function for n in order], [groups[n][0].function.start for n in order], rows,
        len(rows), where + rows[0].iid - 1, sizes, np.array([own[n][0] + 1 for n in order], np.int64),
        [one for n, one in lacking if not fit[n]], [one for n, one in lacking if fit[n]],
        (dict(Counter(tactics.values())), dict(Counter(refusals.values()))),
    )  # fmt: skip


def _function_of_rows(groups: list[list[Wanted]], index: dict[int, int]) -> Int:
    """For each row the function that it comes and goes with, or -1: all that is in one part goes with one."""
    owner = {one.function.start: index.get(n, -1) for n, group in enumerate(groups) for one in group}
    return np.array([owner[one.function.start] for group in groups for one in group], np.int64)
