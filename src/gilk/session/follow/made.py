# SPDX-License-Identifier: LGPL-2.1-or-later
"""The timing of an image's functions, ready in a process: from the repository, or planned for the occasion.

Functions go by a number of their own in each, from 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gilk.analysis.model import Function
from gilk.session.follow.prepared import Prepared
from gilk.session.request import Wanted
from gilk.session.staging import staged
from gilk.splice.instrument import Stamp
from gilk.splice.plan import FunctionPlan, Want
from gilk.splice.planner import Ground, forget
from gilk.splice.portable import ENTRY, HEAD, Array
from gilk.target.base import Loaded
from gilk.target.batch import Batch
from gilk.target.workspace import Workspace
from gilk.trace.probes import ProbeRow

#: A part of a function, by its link-time start, and what it carries.
Carried = tuple[int, Want]


class Made(Protocol):
    """``number`` is the keeper's, of the batch. ``unfit``: how many functions there are that cannot be timed."""

    loaded: Loaded
    number: int
    batch: Batch
    names: list[str]
    unfit: int

    @property
    def rows(self) -> Sequence[ProbeRow]:
        """What iids mean, in their order."""
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
        """What has to be in force for these functions to be timed."""
        ...

    def give_up(self, function: int) -> list[Carried]:
        """The function is to be planned with something else; what it carries. Nothing of it may be in force."""
        ...


class FromRepository:
    """What the repository had."""

    def __init__(self, prepared: Prepared, workspace: Workspace, wanted: int) -> None:
        """``wanted``: how many functions there were to be."""
        self._prepared = prepared
        self._workspace = workspace
        self._functions = prepared.functions  # by the number that they have here, that of their unit
        self._here = np.full(len(prepared.names), -1, np.int64)
        self._here[self._functions] = np.arange(len(self._functions))
        self.loaded, self.number, self.batch = prepared.loaded, prepared.number, prepared.batch
        self.names = [prepared.names[unit] for unit in self._functions.tolist()]
        self.unfit = wanted - len(self._functions)

    @property
    def rows(self) -> Sequence[ProbeRow]:
        return self._prepared.rows

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


class Planned:
    """What the repository cannot have, planned function by function."""

    def __init__(
        self, loaded: Loaded, ground: Ground, workspace: Workspace, groups: list[list[Wanted]], rows: list[ProbeRow]
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
        self._fit = [n for n, carried in enumerate(self._carried) if not self._refused(carried)]
        self.names = [groups[n][0].point.function for n in self._fit]
        self.unfit = len(groups) - len(self._fit)

    def _refused(self, carried: list[tuple[Function, Want]]) -> bool:
        return any(self._plans[self._unit[part.start]].refusals for part, _ in carried)

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


def _want(wanted: Wanted, iid: int) -> Want:
    return Want(wanted.point.address, wanted.point.after, Stamp(iid), iid - 1)
