# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions of an image that can be followed, dormant in a process: from a template, or planned one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gilk.session.placed import ReadyTiming
from gilk.session.request import Wanted
from gilk.splice.plan import Refusal
from gilk.splice.template import RETURN, Array, PlanTemplate
from gilk.targets.base import Loaded
from gilk.trace.probes import ProbeRow, RecordKind
from gilk.values import dataclass

Int = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Unfit:
    """A function with a refused probe, and the reason. ``start``: its link-time address."""

    start: int
    name: str
    reason: str


@dataclass(frozen=True)
class Functions:
    """Functions of an image that can be followed, each known by its index in ``names``.

    ``rows``: the rows of all iids, in order. ``asked``: how many of them belong to functions that are, or might be,
    ready. ``keys``: the keys of the functions' probes, function by function; ``sizes``: how many each has. ``entries``:
    the iid of each function's entry. ``unfit``: the functions that cannot be followed. ``unended``: followed functions
    with a return that cannot be recorded. ``outcomes``: the numbers of points by tactic, and by reason of refusal.
    ``number``: the batch's, if they have one of their own.
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


def of_template(made: ReadyTiming, wanted: set[int]) -> Functions:
    """The ready functions of a placed template. ``wanted``: the starts of all functions that were to be ready."""
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
    """The rows of each of ``count`` functions, function by function, and how many each has. ``function``: by row, its
    function or -1."""
    rows = np.flatnonzero(function >= 0)
    return rows[np.argsort(function[rows], kind="stable")], np.bincount(function[rows], minlength=count)


def _lacking(template: PlanTemplate, own: Array, ready: Array, wanted: set[int]) -> list[tuple[int, Unfit]]:
    """The functions of ``wanted`` that are not ready or lack some probe, each with its unit's number.

    A function with a plan that is not ready has no room here for its splices.
    """
    starts, reasons, names = template.unit_start.tolist(), template.reasons(), template.unit_names
    some = [n for n in np.flatnonzero(own).tolist() if starts[n] in wanted and (n in reasons or not ready[n])]
    return [(n, Unfit(starts[n], names[n], reasons.get(n, str(Refusal.NO_ROOM)))) for n in some]


def of_plans(
    loaded: Loaded, groups: list[list[Wanted]], rows: list[ProbeRow], tactics: Mapping[int, str],
    refusals: Mapping[int, str],
) -> Functions:  # fmt: skip
    """Functions that were planned one by one. ``groups``: for each function, its entry and its returns; ``rows``: the
    rows of all these, in order.

    ``tactics`` and ``refusals``: by key, of these and perhaps of others.
    """
    keys = {row.iid - 1 for row in rows}
    tactics = {key: tactic for key, tactic in tactics.items() if key in keys}
    refusals = {key: why for key, why in refusals.items() if key in keys}
    numbers = iter(rows)
    own = [[next(numbers).iid - 1 for _ in group] for group in groups]
    reasons = [[refusals[key] for key in some if key in refusals] for some in own]
    # The same condition as in PlanTemplate.entered().
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
    """The index of the function that each row is activated with, or -1: all probes in one part go together."""
    owner = {one.function.start: index.get(n, -1) for n, group in enumerate(groups) for one in group}
    return np.array([owner[one.function.start] for group in groups for one in group], np.int64)
