# SPDX-License-Identifier: LGPL-2.1-or-later
"""Placed timing: a template with the timing of all functions of an image, placed in a process, in the form that a
ledger takes."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gilk.session.entry import Entry
from gilk.splice.host import ClientPart
from gilk.splice.instrument import Stamp
from gilk.splice.plan import Want
from gilk.splice.planner import PatchContext
from gilk.splice.tactics.table import NAMES
from gilk.splice.template import ENTRY, HEAD, RETURN, Array, PlanTemplate, pinned
from gilk.targets.base import Loaded
from gilk.targets.batch import Batch, Byte
from gilk.targets.templates import plans
from gilk.targets.workspace import Workspace
from gilk.trace.probes import ProbeRow, RecordKind
from gilk.values import dataclass

Int = NDArray[np.int64]
_KINDS = {ENTRY: RecordKind.ENTRY, HEAD: RecordKind.HEAD, RETURN: RecordKind.RETURN}


@dataclass(frozen=True)
class ReadyTiming:
    """The units of a template that are ready in a process.

    The keys of its probes begin at ``first``, whether or not their units are ready; an iid is its key plus one.
    ``number``: the number of its batch.
    """

    loaded: Loaded
    template: PlanTemplate
    first: int
    ready: NDArray[np.bool_]
    number: int

    @cached_property
    def cramped(self) -> set[int]:
        """Link-time starts of the functions that are not ready for lack of room; see PlanTemplate.cramped()."""
        template = self.template
        return set(template.unit_start[template.unit_owner[template.cramped()]].tolist())

    @property
    def rows(self) -> list[ProbeRow]:
        """The rows of the template's probes, in the order of their iids."""
        template, image, names = self.template, self.loaded.name, self.template.unit_names
        starts = template.unit_start.tolist()
        owner = template.unit_owner[template.row_unit]
        columns = (column.tolist() for column in (template.row_unit, owner, template.row_kind, template.row_block))
        return [
            ProbeRow(
                iid, f"{image}:{names[unit]}:{f'@{block}:post' if kind == RETURN else 'entry'}", names[function], image,
                _KINDS[kind], address=starts[function],
            )
            for iid, (unit, function, kind, block) in enumerate(zip(*columns, strict=True), self.first + 1)
        ]  # fmt: skip


@dataclass(frozen=True)
class PlacedTiming(ReadyTiming):
    """The same, in the form that the ledger takes.

    ``new``: the bytes of all sites of the template. ``iids``: an iid is its key plus this. ``part``: the client whose
    memory gets the records, None if it is the session's own.
    """

    batch: Batch
    new: Byte
    iids: int = 1
    part: ClientPart | None = None

    @cached_property
    def unit_of_key(self) -> Int:
        rows = self.template.row_unit
        return np.where(self.ready[rows], rows, -1).astype(np.int64)

    @cached_property
    def had(self) -> NDArray[np.bool_]:
        """Whether the unit of each key, counted from ``first``, is ready, and its probe was not refused."""
        had: NDArray[np.bool_] = self.ready[self.template.row_unit] & (self.template.row_outcome < len(NAMES))
        return had

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
        made = plans(template, self.new, ground.bias, keys)[unit]
        return Entry(ground, int(template.unit_start[unit]), wants, made, self.number, unit)

    def _want(self, row: int) -> Want:
        template, key = self.template, self.first + row
        stamp = Stamp(key + self.iids, self.part)
        return Want(int(template.row_address[row]), bool(template.row_after[row]), stamp, key)


def place_timing(
    workspace: Workspace, loaded: Loaded, template: PlanTemplate, first: int, starts: set[int], iids: int = 1,
    part: ClientPart | None = None,
) -> PlacedTiming | None:  # fmt: skip
    """Stage the functions of an image that begin at one of ``starts``, except cramped ones; returns None if there is no
    room.

    ``first``: the key of the first probe. ``iids`` and ``part`` are those of PlacedTiming; the template has to be made
    for that part. Raises TargetError as the keeper does.
    """
    chosen = template.entered() & ~template.cramped()
    chosen &= np.isin(template.unit_start[template.unit_owner], list(starts))
    numbers = np.arange(first + iids, first + iids + template.rows)
    placed = workspace.place(loaded, template, numbers, chosen, comes_and_goes=True)
    if placed is None:
        return None
    return PlacedTiming(loaded, template, first, placed.units, placed.number, placed.batch, placed.new, iids, part)
