# SPDX-License-Identifier: LGPL-2.1-or-later
"""The timing of an image's functions, ready in a process: what its numbers mean, and what may be put in."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gilk.splice.instrument import Stamp
from gilk.splice.plan import Want
from gilk.splice.portable import ENTRY, HEAD, RETURN, Array, Portable
from gilk.target.base import Loaded
from gilk.target.batch import Batch
from gilk.trace.probes import Kind, ProbeRow
from gilk.values import dataclass

_KINDS = {ENTRY: Kind.ENTRY, HEAD: Kind.HEAD, RETURN: Kind.RETURN}


@dataclass(frozen=True)
class Prepared:
    """Batch ``number`` of the keeper has the *units* for which ``ready``; each is a function, or a part of one.

    iids from ``first`` on, ``count`` of them, are those of the probes, whether or not their units are ready. A function
    goes by the number of its unit. Dormant until ``keeper.change({}, {number: units})``.
    """

    loaded: Loaded
    portable: Portable
    first: int
    batch: Batch
    number: int
    ready: NDArray[np.bool_]

    @property
    def count(self) -> int:
        return self.portable.rows

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the units."""
        return self.portable.unit_names

    @cached_property
    def functions(self) -> Array:
        """The functions that are ready, by the number of their unit."""
        owner = self.portable.unit_owner
        return np.flatnonzero(self.ready & (owner == np.arange(len(owner))))

    @cached_property
    def cramped(self) -> set[int]:
        """Link-time starts of functions that are not ready since they lack room; see Portable.cramped()."""
        portable = self.portable
        return set(portable.unit_start[portable.unit_owner[portable.cramped()]].tolist())

    @cached_property
    def unit_of_iid(self) -> Array:
        """For each iid, less ``first``, its unit."""
        return self.portable.row_unit

    @cached_property
    def function_of_iid(self) -> Array:
        """For each iid, less ``first``, its function."""
        return self.portable.unit_owner[self.portable.row_unit]

    @cached_property
    def _parts(self) -> dict[int, list[int]]:
        owner = self.portable.unit_owner
        parts: dict[int, list[int]] = defaultdict(list)
        for unit in np.flatnonzero(owner != np.arange(len(owner))).tolist():
            parts[int(owner[unit])].append(unit)
        return parts

    def units(self, functions: Array | list[int]) -> set[int]:
        """The functions' units and those of their parts, as the keeper wants them."""
        chosen = set(np.asarray(functions).tolist())
        return chosen.union(*(self._parts[each] for each in self._parts.keys() & chosen))

    def starts(self) -> dict[int, int]:
        """Link-time address -> unit."""
        return dict(zip(self.portable.unit_start.tolist(), range(len(self.names)), strict=True))

    @cached_property
    def rows(self) -> tuple[ProbeRow, ...]:
        """The meaning of the iids, in their order."""
        portable, image, names = self.portable, self.loaded.name, self.names
        columns = (portable.row_unit, self.function_of_iid, portable.row_kind, portable.row_block)
        return tuple(
            ProbeRow(
                iid, f"{image}:{names[unit]}:{f'@{block}:post' if kind == RETURN else 'entry'}", names[function], image,
                _KINDS[kind],
            )
            for iid, (unit, function, kind, block) in enumerate(
                zip(*(column.tolist() for column in columns), strict=True), self.first
            )
        )  # fmt: skip

    @property
    def outcomes(self) -> tuple[dict[str, int], dict[str, int]]:
        """How many of the probes that are ready are had by each tactic; how many are refused for each reason, but for
        those of cramped functions.
        """
        ours = ~self.portable.cramped()[self.unit_of_iid]
        return self.portable.outcomes(self.ready[self.unit_of_iid])[0], self.portable.outcomes(ours)[1]

    def wants(self, unit: int) -> list[Want]:
        """The probes of the unit, to be planned together with others; keys are iids less 1."""
        portable = self.portable
        return [
            Want(
                int(portable.row_address[row]), bool(portable.row_after[row]), Stamp(self.first + row),
                self.first + row - 1,
            )
            for row in np.flatnonzero(portable.row_unit == unit).tolist()
        ]  # fmt: skip
