# SPDX-License-Identifier: LGPL-2.1-or-later
"""The timing of an image's functions, ready in a process: from the repository, or planned for the occasion.

Functions go by a number of their own in each, from 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gilk.analysis.model import Function
from gilk.session.follow.prepared import Prepared
from gilk.session.request import Wanted
from gilk.session.staging import staged
from gilk.splice.instrument import Stamp
from gilk.splice.plan import FunctionPlan, Refusal, Want
from gilk.splice.planner import PatchContext, forget
from gilk.splice.portable import ENTRY, HEAD, Array
from gilk.splice.reservations import pinned
from gilk.target.base import Loaded
from gilk.target.batch import Batch
from gilk.target.workspace import Workspace
from gilk.trace.probes import Kind, ProbeRow
from gilk.values import dataclass

#: A part of a function, by its link-time start, and what it carries.
Carried = tuple[int, Want]


@dataclass(frozen=True, slots=True)
class Unfit:
    """A function of which some probe was refused, and why; ``start`` is its link-time address."""

    start: int
    name: str
    reason: str


class Made(Protocol):
    """``number`` is the keeper's, of the batch. ``unfit``: functions that cannot be followed.
    ``unended``: functions that are, but of which some return cannot be recorded."""

    loaded: Loaded
    number: int
    batch: Batch
    names: list[str]
    unfit: list[Unfit]
    unended: list[Unfit]

    @property
    def rows(self) -> Sequence[ProbeRow]:
        """The meaning of the iids, in their order."""
        ...

    @property
    def asked(self) -> int:
        """How many of the rows are of functions that are, or might be, ready."""
        ...

    @property
    def entries(self) -> tuple[Array, Array]:
        """iids of entries, and of which functions."""
        ...

    @property
    def starts(self) -> dict[int, int]:
        """Link-time start of a function or of a part of one -> the function."""
        ...

    @property
    def outcomes(self) -> tuple[dict[str, int], dict[str, int]]:
        """Points by tactic, and by reason for which they are refused."""
        ...

    def units(self, functions: Sequence[int]) -> set[int]:
        """The units that have to be in force for these functions to be timed."""
        ...

    def give_up(self, function: int) -> list[Carried]:
        """The function is to be planned with something else; what it carries. Nothing of it may be in force."""
        ...

    def sharing(self, start: int, end: int) -> set[int]:
        """Functions with a pun that shares bytes of the link-time range [start, end)."""
        ...


class FromRepository:
    """The functions that the repository had."""

    def __init__(self, prepared: Prepared, workspace: Workspace, wanted: set[int]) -> None:
        """``wanted``: link-time starts of the functions that there were to be."""
        self._prepared = prepared
        self._workspace = workspace
        self._functions = prepared.functions  # by the number that they have here, that of their unit
        self._here = np.full(len(prepared.names), -1, np.int64)
        self._here[self._functions] = np.arange(len(self._functions))
        self.loaded, self.number, self.batch = prepared.loaded, prepared.number, prepared.batch
        self.names = [prepared.names[unit] for unit in self._functions.tolist()]
        wanting = self._wanting(wanted)
        self.unfit = [one for unit, one in wanting if self._here[unit] < 0]
        self.unended = [one for unit, one in wanting if self._here[unit] >= 0]

    def _wanting(self, wanted: set[int]) -> list[tuple[int, Unfit]]:
        """The functions of ``wanted`` that are not ready, or lack some probe, each with the number of its unit.

        A function that has a plan, and is not ready all the same, finds no room here for its splices.
        """
        starts, reasons = self._prepared.portable.unit_start.tolist(), self._prepared.portable.reasons()
        owners = np.flatnonzero(self._prepared.portable.unit_owner == np.arange(len(starts))).tolist()
        lacking = [n for n in owners if starts[n] in wanted and (n in reasons or self._here[n] < 0)]
        names = self._prepared.names
        return [(n, Unfit(starts[n], names[n], reasons.get(n, str(Refusal.NO_ROOM)))) for n in lacking]

    @property
    def rows(self) -> Sequence[ProbeRow]:
        return self._prepared.rows

    @property
    def asked(self) -> int:
        portable = self._prepared.portable
        return int(np.count_nonzero(~portable.cramped()[portable.row_unit]))

    @property
    def entries(self) -> tuple[Array, Array]:
        kinds = self._prepared.portable.row_kind
        rows = np.flatnonzero((kinds == ENTRY) | (kinds == HEAD))
        return rows + self._prepared.first, self._here[self._prepared.function_of_iid[rows]]

    @property
    def starts(self) -> dict[int, int]:
        owner = self._here[self._prepared.portable.unit_owner].tolist()
        return {start: owner[unit] for start, unit in self._prepared.starts().items() if owner[unit] >= 0}

    @property
    def outcomes(self) -> tuple[dict[str, int], dict[str, int]]:
        return self._prepared.outcomes

    def units(self, functions: Sequence[int]) -> set[int]:
        return self._prepared.units(self._functions[np.asarray(functions, np.int64)])

    def give_up(self, function: int) -> list[Carried]:
        chosen = np.zeros(len(self._prepared.names), np.bool_)
        chosen[list(self.units([function]))] = True
        self._workspace.give_up(self.loaded, self._prepared.portable, chosen)
        starts = self._prepared.portable.unit_start
        return [
            (int(starts[unit]), want) for unit in np.flatnonzero(chosen).tolist() for want in self._prepared.wants(unit)
        ]

    @cached_property
    def _pinned(self) -> tuple[Array, Array, Array]:
        """The ranges of bytes that puns share, as starts and ends, and the function of each."""
        low, high, unit = pinned(self._prepared.portable)
        return low, high, self._here[self._prepared.portable.unit_owner[unit]]

    def sharing(self, start: int, end: int) -> set[int]:
        low, high, function = self._pinned
        return set(function[(low < end) & (start < high) & (function >= 0)].tolist())


class Planned:
    """The functions that the repository cannot have, planned one by one."""

    def __init__(
        self,
        loaded: Loaded,
        ground: PatchContext,
        workspace: Workspace,
        groups: list[list[Wanted]],
        rows: list[ProbeRow],
    ) -> None:
        """``groups``: for each function its entry and its returns; ``rows`` are those of all of them, in order."""
        self.loaded, self.rows = loaded, tuple(rows)
        self._ground = ground
        self._carried: list[list[tuple[Function, Want]]] = []
        numbers = iter(rows)
        for group in groups:
            self._carried.append([(one.function, _want(one, next(numbers).iid)) for one in group])
        by_part: dict[int, tuple[Function, list[Want]]] = {}
        for part, want in (each for carried in self._carried for each in carried):
            by_part.setdefault(part.start, (part, []))[1].append(want)
        order = sorted(by_part.values(), key=lambda item: -item[0].start)
        made, self.number, self.batch = staged(ground, order, workspace)
        self._plans: list[FunctionPlan] = list(made.functions)
        self._unit = {part.start: unit for unit, (part, _) in enumerate(order)}
        self._fit = [n for n, group in enumerate(groups) if self._is_fit(n, group[0].kind)]
        self.names = [groups[n][0].point.function for n in self._fit]
        wanting = {
            n: Unfit(groups[n][0].function.start, groups[n][0].point.function, why)
            for n in range(len(groups))
            if (why := next(iter(self._reasons(n).values()), ""))
        }
        self.unended = [wanting.pop(n) for n in self._fit if n in wanting]
        self.unfit = list(wanting.values())

    def _reasons(self, number: int) -> dict[int, str]:
        """The reasons for refusals of a function's probes, by their key."""
        carried = self._carried[number]
        why = {key: str(w) for part, _ in carried for key, w in self._plans[self._unit[part.start]].refusals.items()}
        return {want.key: why[want.key] for _, want in carried if want.key in why}

    def _is_fit(self, number: int, entry: str) -> bool:
        """Whether the function is fit, as Portable.entered() has it."""
        refused = self._reasons(number)
        return not refused or (entry != Kind.HEAD and self._carried[number][0][1].key not in refused)

    @property
    def asked(self) -> int:
        return len(self.rows)

    @property
    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        iids = [self._carried[n][0][1].key + 1 for n in self._fit]
        return np.array(iids, np.int64), np.arange(len(iids), dtype=np.int64)

    @property
    def starts(self) -> dict[int, int]:
        return {part.start: number for number, n in enumerate(self._fit) for part, _ in self._carried[n]}

    @property
    def outcomes(self) -> tuple[dict[str, int], dict[str, int]]:
        tactics = Counter(str(tactic) for each in self._plans for tactic in each.tactics.values())
        refusals = Counter(str(reason) for each in self._plans for reason in each.refusals.values())
        return dict(tactics), dict(refusals)

    def units(self, functions: Sequence[int]) -> set[int]:
        return {self._unit[part.start] for n in functions for part, _ in self._carried[self._fit[n]]}

    def give_up(self, function: int) -> list[Carried]:
        for unit in self.units([function]):
            forget(self._ground, self._plans[unit])
        return [(part.start, want) for part, want in self._carried[self._fit[function]]]

    def sharing(self, start: int, end: int) -> set[int]:
        bias = self._ground.bias
        units = {
            unit for unit, each in enumerate(self._plans)
            if any(low - bias < end and start < high - bias for low, high in each.pinned)
        }  # fmt: skip
        return {n for n in range(len(self._fit)) if not units.isdisjoint(self.units([n]))} if units else set()


def _want(wanted: Wanted, iid: int) -> Want:
    return Want(wanted.point.address, wanted.point.after, Stamp(iid), iid - 1)
