# SPDX-License-Identifier: LGPL-2.1-or-later
"""Decides how a change of code is made: by exchanging the code for copies (copies.py), by writing, or by both.

Writes go to the code that is executed and to the other version alike. So three kinds of units are told apart: those in
force in both versions, those in force in neither, and those in force in the copies only, which an exchange puts in or
takes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from gilk.targets.batch import Batch, Byte, Int
from gilk.targets.copies import ONLY_COPIED_NOTHING, Copy, OnlyCopied, Units
from gilk.values import dataclass


@dataclass(frozen=True)
class Steps:
    """Whether copies and originals are exchanged, and which units are written after that."""

    exchange: bool
    remove: Units
    add: Units


@dataclass(frozen=True)
class _Rows:
    """The bytes of all units that are, or were, in the copies only, by ascending address. ``batch`` is an index into
    ``numbers``, the numbers of batches."""

    at: Int
    old: Byte
    new: Byte
    unit: Int
    batch: Int
    numbers: tuple[int, ...]

    def of(self, units: Units) -> OnlyCopied:
        """The bytes of some units."""
        here = np.zeros(len(self.at), np.bool_)
        for index, number in enumerate(self.numbers):
            mine = self.batch == index
            here[mine] = _mask(units.get(number, set()), int(self.unit[mine].max(initial=0)) + 1)[self.unit[mine]]
        return OnlyCopied(self.at[here], self.old[here], self.new[here])


@dataclass
class Exchanged:
    """Keeps account of ``only_copied``, the units that are in the copies and not in the originals."""

    only_copied: Units = field(default_factory=dict)
    _rows: _Rows | None = None
    _known: tuple[Units, OnlyCopied] = field(default_factory=lambda: ({}, ONLY_COPIED_NOTHING))

    def steps(self, copies: Sequence[Copy], active: Units, remove: Units, add: Units) -> Steps:
        """The steps of a change; with an exchange if that does most of it. ``active``: the units in force before.

        A change that both removes and adds is made byte by byte: it passes through the original code (changing.py).
        """
        if remove and add:
            return Steps(False, remove, add)
        in_force = any(copy.in_force for copy in copies)
        left = {n: active[n] & units - remove.get(n, set()) for n, units in self.only_copied.items()}
        wanted = sum(len(units & self.only_copied.get(n, set())) for n, units in add.items())
        if in_force and not any(left.values()):
            return Steps(True, _minus(remove, self.only_copied), add)
        if not in_force and wanted and 2 * wanted >= sum(len(units) for units in self.only_copied.values()):
            return Steps(True, _plus(remove, _minus(self.only_copied, add)), _minus(add, self.only_copied))
        return Steps(False, remove, add)

    def after(self, copies: Sequence[Copy], steps: Steps) -> OnlyCopied:
        """The bytes that only the copies will have once the steps are taken; ``copies`` are those before the steps."""
        in_force = any(copy.in_force for copy in copies) is not steps.exchange
        return self._bytes(_minus(self.only_copied, steps.remove if in_force else steps.add))

    def _bytes(self, units: Units) -> OnlyCopied:
        if self._rows is None:
            return ONLY_COPIED_NOTHING
        if self._known[0] != units:
            self._known = units, self._rows.of(units)
        return self._known[1]

    def more(self, units: Units, batches: Mapping[int, Batch]) -> None:
        """Note that these units are in the copies, too, from now on."""
        self.only_copied = _plus(self.only_copied, units)
        known = self._rows
        numbers = (*(known.numbers if known is not None else ()), *batches)
        parts = [] if known is None else [(known.at, known.old, known.new, known.unit, known.batch)]
        for index, batch in enumerate(batches.values(), len(numbers) - len(batches)):
            parts.append((batch.at, batch.old, batch.new, batch.at_unit, np.full(len(batch.at), index)))
        if parts:
            columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
            order = np.argsort(columns[0], kind="stable")
            at, old, new, unit, which = (column[order] for column in columns)
            self._rows = _Rows(at, old, new, unit, which, numbers)
            self._known = {}, ONLY_COPIED_NOTHING

    def less(self, units: Units) -> Units:
        """Note that none of these units is only in the copies any more; returns those that were."""
        gone = {n: found for n, some in units.items() if (found := some & self.only_copied.get(n, set()))}
        self.only_copied = {n: some for n, some in _minus(self.only_copied, gone).items() if some}
        if not self.only_copied:
            self._rows = None
        return gone

    def made(self, copies: Sequence[Copy], steps: Steps) -> None:
        """Note that the steps were taken; ``copies`` are those after the steps."""
        in_force = any(copy.in_force for copy in copies)
        self.only_copied = _minus(self.only_copied, steps.remove if in_force else steps.add)


def _mask(units: set[int], size: int) -> NDArray[np.bool_]:
    chosen = np.zeros(max(size, max(units, default=0) + 1), np.bool_)
    chosen[list(units)] = True
    return chosen


def _minus(units: Units, others: Units) -> Units:
    return {n: some - others.get(n, set()) for n, some in units.items()}


def _plus(units: Units, others: Units) -> Units:
    return {n: units.get(n, set()) | others.get(n, set()) for n in (*units, *(others.keys() - units.keys()))}
