# SPDX-License-Identifier: LGPL-2.1-or-later
"""How every point of a kernel would be spliced, by arithmetic on whole arrays.

Jumps, calls, fentry and refusals come out as splice.planner decides them. Where a block is too short, a bounce is
taken to be possible when there is any room for its jump within reach: which of several points gets which room,
and what a copy could still rescue, is for the planner, one function at a time. tests/kernel says how near that is.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from gilk.image.kernel.kallsyms import Addresses
from gilk.image.kernel.opcodes import Flow
from gilk.session.survey.kernel_blocks import Blocks, Flags, Instructions, Rows
from gilk.session.survey.kernel_points import COLUMN, NONE, Columns, Cuts, Points
from gilk.splice.plan import Tactic
from gilk.splice.policy import KERNEL
from gilk.values import dataclass

_JUMP, _BOUNCE = 5, 2  # bytes
_BACK, _AHEAD = 128 - _BOUNCE, 127 + _BOUNCE  # from a two-byte jump to what it leads to
_JUMP_COLUMN: Final = COLUMN[Tactic.JUMP]


@dataclass(frozen=True)
class Census:
    """Of all blocks of a kernel. ``pre`` and ``post`` are columns of OUTCOMES, one a block."""

    code: Instructions
    blocks: Blocks

    @cached_property
    def pre(self) -> Columns:
        points = self._cuts.before()
        found = self._outcomes(points)
        entry = np.isin(self._starts[self.blocks.first], self.code.kernel.fentries)
        found[entry & ((points.refused != NONE) | (found == COLUMN[Tactic.TRAP]))] = COLUMN[Tactic.FENTRY]
        return found

    @cached_property
    def post(self) -> Columns:
        return self._outcomes(self._cuts.after())

    @cached_property
    def _cuts(self) -> Cuts:
        return Cuts(self.code, self.blocks)

    @property
    def _starts(self) -> Addresses:
        return self.code.kernel.sweep.starts

    @cached_property
    def strict(self) -> Flags:
        """Of each function whether a jump of unknown target may lead anywhere in it."""
        rows = self.code.owner[self.code.kernel.sweep.flows == Flow.JUMP_INDIRECT]
        found = np.zeros(len(self.code.analysis.spans.starts), np.bool_)
        found[rows[rows >= 0]] = True
        return found

    def _outcomes(self, points: Points) -> Columns:
        sweep, code = self.code.kernel.sweep, self.code
        strict = self.strict[self.blocks.owner]
        called = (points.low == points.high) & code.calls[points.high] & (sweep.lengths[points.high] == _JUMP)
        start = self._window(points)
        whole = (sweep.lengths[start] >= _JUMP) | ~strict
        fits = (self._starts[start] + np.uint64(_JUMP) <= points.room) & whole & self._unentered(start, _JUMP)
        dear = points.returns & (self._covering(start, _JUMP) >= points.high) & ~called
        found = np.where(fits, _JUMP_COLUMN, COLUMN[Tactic.TRAP]).astype(np.int8)
        good = points.refused == NONE
        late = np.flatnonzero(~called & (~fits | dear) & good)
        donors = self._donors(points, start, fits & ~dear & ~called & good)
        bounced = late[self._bounces(points, late, fits[late], donors)]
        found[bounced] = COLUMN[Tactic.BOUNCE]
        found[called] = COLUMN[Tactic.CALL]
        return np.where(points.refused != NONE, points.refused, found)

    def _window(self, points: Points) -> Rows:
        """Where a jump would be: as near before what is wanted as five bytes fit; else at the stretch's start."""
        latest = np.searchsorted(self._starts, points.room - np.uint64(_JUMP), "right") - 1
        return np.maximum(np.minimum(points.wanted, latest), points.low)

    def _covering(self, start: Rows, size: int) -> Rows:
        """The row that has the last of so many bytes."""
        return np.searchsorted(self._starts, self._starts[start] + np.uint64(size)) - 1

    def _unentered(self, start: Rows, size: int) -> Flags:
        """Nothing leads into so many bytes, but for the first."""
        inner, at = self.blocks.inner, self._starts[start]
        low, high = np.searchsorted(inner, at + np.uint64(1)), np.searchsorted(inner, at + np.uint64(size))
        found: Flags = low == high
        return found

    # Bounces.

    def _bounces(self, points: Points, late: Rows, fits: Flags, donors: Addresses) -> Flags:
        """Which of the points ``late`` have room for two bytes, and a place in reach for the jump these lead to."""
        sweep = self.code.kernel.sweep
        latest = np.searchsorted(self._starts, points.room[late] - np.uint64(_BOUNCE), "right") - 1
        first = np.maximum(np.minimum(points.wanted[late], latest), points.low[late])
        room = self._starts[first] + np.uint64(_BOUNCE) <= points.room[late]
        cheap = ~(points.returns[late] & (self._covering(first, _BOUNCE) >= points.high[late]))
        cheap |= points.wanted[late] == points.high[late]
        owner = self.blocks.owner[late]
        low, high = self._starts[first] - np.uint64(_BACK), self._starts[first] + np.uint64(_AHEAD)
        spans = self.code.analysis.spans
        own = (np.maximum(low, spans.starts[owner]), np.minimum(high, spans.ends[owner]))
        near = _any(self._pads, own) | _any(self._gaps, (low, np.minimum(high, self._behind[owner])))
        near |= _any(donors, own) & ~self.strict[owner]
        whole = (sweep.lengths[first] >= _BOUNCE) | ~self.strict[owner]
        return near & room & whole & self._unentered(first, _BOUNCE) & (cheap | ~fits)

    @cached_property
    def _behind(self) -> Addresses:
        """Of each function where the next begins."""
        spans = self.code.analysis.spans
        return np.append(spans.starts[1:], spans.ends[-1])

    @cached_property
    def _idle(self) -> Rows:
        """Padding that is free, and at which a jump may begin."""
        sweep, blocks = self.code.kernel.sweep, self.blocks
        room, ends = self._cuts.padding, sweep.ends[blocks.last]
        free = np.flatnonzero(room > ends)
        low, high = blocks.last[free] + 1, np.searchsorted(self._starts, room[free])
        size = len(sweep.starts) + 1
        idle = np.cumsum(np.bincount(low, minlength=size) - np.bincount(high, minlength=size))[:-1] > 0
        single = idle & (sweep.lengths == 1)
        run = np.convolve(single, np.ones(_JUMP, np.int64))[_JUMP - 1 :] == _JUMP
        return np.flatnonzero((idle & (sweep.lengths >= _JUMP)) | run[: len(idle)])

    @cached_property
    def _pads(self) -> Addresses:
        """Those inside functions."""
        return self._starts[self._idle[self.code.owner[self._idle] >= 0]]

    @cached_property
    def _gaps(self) -> Addresses:
        """Those between functions."""
        return self._starts[self._idle[self.code.owner[self._idle] < 0]]

    def _donors(self, points: Points, start: Rows, jumps: Flags) -> Addresses:
        """Where bytes are free behind a jump that moves more than it needs to, or that may be put there for it."""
        sweep, fixed, last = self.code.kernel.sweep, self._cuts.fixed, self.blocks.last
        stops = np.flatnonzero(self.code.calls | (fixed != NONE))
        marks = np.zeros(len(sweep.starts) + 1, np.bool_)
        marks[self.blocks.first] = marks[stops + 1] = True
        marks[points.low] = False
        marks[start[jumps]] = True
        start = np.flatnonzero(marks[:-1])
        block = np.searchsorted(self.blocks.first, start, "right") - 1
        start, block = start[start <= last[block]], block[start <= last[block]]
        stop = np.append(stops, len(sweep.starts))[np.searchsorted(stops, start)]
        end = sweep.ends[np.maximum(np.minimum(stop - 1, last[block]), start)]
        at = self._starts[start]
        cover = sweep.ends[self._covering(start, 2 * _JUMP)]
        good = (stop > start) & (at + np.uint64(2 * _JUMP) <= end) & (cover <= at + np.uint64(KERNEL.lends))
        places: Addresses = at[good] + np.uint64(_JUMP)
        return places


def _any(places: Addresses, reach: tuple[Addresses, Addresses]) -> Flags:
    """Whether any of ``places``, which are sorted, is in each closed range."""
    low, high = reach
    return np.searchsorted(places, low) < np.searchsorted(places, high, "right")
