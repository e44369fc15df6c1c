# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a splice at each block of a kernel has to work with: for each point a stretch of code, as arrays of rows.

Blocks are cut as splice.segments cuts them: behind calls, to which a sleeping frame returns, and around what must
stay where it is.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from iced_x86 import Code
from numpy.typing import NDArray

from gilk.image.kernel import opcodes
from gilk.image.kernel.kallsyms import Addresses
from gilk.image.kernel.opcodes import Flow
from gilk.session.survey.kernel_blocks import Blocks, Flags, Instructions, Rows
from gilk.session.survey.table import OUTCOMES
from gilk.splice.plan import Refusal
from gilk.values import dataclass

Columns = NDArray[np.int8]

COLUMN: Final = {name: column for column, name in enumerate(OUTCOMES)}
NONE: Final = -1
_LONGEST_PADDING: Final = 256  # bytes, as splice.room has it


@dataclass(frozen=True)
class Points:
    """Of each point its stretch of code, rows ``low`` to ``high``, of which ``wanted`` must run in the patch.

    ``room`` is the first address behind that must be left alone. ``refused`` is a column of OUTCOMES where nothing
    can be done, else NONE. ``returns``: the stretch ends with a call that comes back.
    """

    low: Rows
    high: Rows
    wanted: Rows
    room: Addresses
    refused: Columns
    returns: Flags


@dataclass(frozen=True)
class Cuts:
    """Where blocks are cut. ``fixed``: of each instruction why it cannot be moved, as a column; NONE when it can."""

    code: Instructions
    blocks: Blocks

    @cached_property
    def fixed(self) -> Columns:
        """What is reserved for several reasons has the first in the order of the ranges, as in splice.ground."""
        sweep = self.code.kernel.sweep
        fixed = np.where(opcodes.raising()[sweep.codes], COLUMN[Refusal.EXCEPTION], NONE).astype(np.int8)
        ranges = sorted(self.code.kernel.image.reserved, reverse=True)
        starts, ends = (np.array([each[i] for each in ranges], np.uint64) for i in (0, 1))
        reasons = np.array([COLUMN[reason] for _, _, reason in ranges], np.int8)
        low = np.searchsorted(sweep.ends, starts, "right")
        counts = np.maximum(np.searchsorted(sweep.starts, ends) - low, 0)
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        fixed[np.repeat(low, counts) + within] = np.repeat(reasons, counts)
        return fixed

    @cached_property
    def room(self) -> Addresses:
        """Of each block where what a splice may overwrite ends: its end, or behind a return that of the int3."""
        sweep, last = self.code.kernel.sweep, self.blocks.last
        others = np.flatnonzero(sweep.codes != Code.INT3)
        following = np.append(others, len(sweep.starts) - 1)[np.searchsorted(others, last + 1)]
        traps = np.minimum(sweep.starts[following], self.padding)
        return np.where(sweep.flows[last] == Flow.RETURN, np.maximum(traps, sweep.ends[last]), sweep.ends[last])

    @cached_property
    def padding(self) -> Addresses:
        """Of each block where the padding behind it ends, which nothing runs into."""
        code, blocks = self.code, self.blocks
        sweep, spans = code.kernel.sweep, code.analysis.spans
        ends = sweep.ends[blocks.last]
        starts = np.append(sweep.starts[blocks.first], sweep.ends[-1])
        owners = np.append(blocks.owner, -1)
        behind = np.append(spans.starts[1:], spans.ends[-1])[blocks.owner]
        limit = np.where(owners[1:] == owners[:-1], starts[1:], behind)
        solid = np.concatenate(([0], np.cumsum(~sweep.padding)))
        idle = solid[np.searchsorted(sweep.starts, limit)] == solid[blocks.last + 1]
        free = code.closed[blocks.last] & idle & (limit > ends) & (limit - ends <= _LONGEST_PADDING)
        return np.where(free, limit, ends)

    def before(self) -> Points:
        """The points before blocks. That of a function is behind what is ftrace's, which does nothing."""
        blocks, sweep = self.blocks, self.code.kernel.sweep
        low = blocks.first.copy()
        traced = np.isin(sweep.starts[low], self.code.kernel.fentries) & (blocks.last > low)
        low[traced] += 1
        high = np.minimum(blocks.last, _next(self._calls, low))
        stop = _next(self._fixed, low)
        high = np.where(stop == low, low, np.minimum(high, stop - 1))
        return self._points(low, high, low, self.fixed[low])

    def after(self) -> Points:
        """The points after the last instruction of blocks that does not transfer control; a call does."""
        code, blocks = self.code, self.blocks
        first, last = blocks.first, blocks.last
        fixed = self.fixed
        # Before a transfer that must stay where it is is behind what comes before, unless that is a call.
        back = (code.ending | code.calls)[last] & (fixed[last] != NONE) & (last > first) & ~code.calls[last - 1]
        wanted = np.where(back, last - 1, last)
        alone = code.calls[wanted] & (code.kernel.sweep.lengths[wanted] >= 5)
        low = np.maximum(first, np.maximum(_last(self._calls, wanted), _last(self._fixed, wanted)) + 1)
        low = np.where(alone | (fixed[wanted] != NONE), wanted, low)
        return self._points(low, wanted, wanted, fixed[wanted])

    @cached_property
    def _calls(self) -> Rows:
        return np.flatnonzero(self.code.calls)

    @cached_property
    def _fixed(self) -> Rows:
        return np.flatnonzero(self.fixed != NONE)

    def _points(self, low: Rows, high: Rows, wanted: Rows, refused: Columns) -> Points:
        code, sweep = self.code, self.code.kernel.sweep
        final = high == self.blocks.last
        room = np.where(final, self.room, sweep.ends[high])
        returns = code.calls[high] & ~(final & (code.closed | code.dropped)[high])
        return Points(low, high, wanted, room, refused, returns)


def _next(rows: Rows, at: Rows) -> Rows:
    """The first of ``rows`` from each of ``at`` on; far beyond all when there is none."""
    return np.append(rows, 1 << 60)[np.searchsorted(rows, at)]


def _last(rows: Rows, at: Rows) -> Rows:
    """The last of ``rows`` before each of ``at``; -1 when there is none."""
    return np.append(-1, rows)[np.searchsorted(rows, at)]
