# SPDX-License-Identifier: LGPL-2.1-or-later
"""The code that a splice at each block of a kernel has to work with: for each point a stretch of instructions, as
arrays of rows.

KernelStretches answers for all points of one side at once the questions that Choices (tactics/tactic.py) answers for
the segments of one function. Blocks are cut as splice.segments cuts them: behind calls, to which a sleeping frame
returns, and around instructions that must stay where they are.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from iced_x86 import Code
from numpy.typing import NDArray

from gilk.arch.asm import CALL_SIZE, JUMP_SIZE
from gilk.image.kernel import opcodes
from gilk.image.kernel.kallsyms import Addresses
from gilk.image.kernel.opcodes import OpcodeFlow
from gilk.splice.kernel.blocks import Blocks, Flags, Instructions, Rows
from gilk.splice.plan import Refusal
from gilk.splice.policy import KERNEL
from gilk.splice.tactics.table import OUTCOMES
from gilk.values import dataclass

Columns = NDArray[np.int8]

NONE: Final = -1
_COLUMN: Final = {name: column for column, name in enumerate(OUTCOMES)}
_LONGEST_PADDING: Final = 256  # in bytes; the same as in splice.byte_registry


@dataclass(frozen=True)
class Cuts:
    """The places where blocks are cut. ``fixed`` has for each instruction the column in OUTCOMES of the reason why it
    cannot be moved; NONE if it can.
    """

    code: Instructions
    blocks: Blocks

    @cached_property
    def fixed(self) -> Columns:
        """The reason why each instruction cannot be moved, as a column. If there are several, the first in the order of
        the reserved ranges counts, as in FunctionLayout.
        """
        sweep = self.code.kernel.sweep
        fixed = np.where(opcodes.raising()[sweep.codes], _COLUMN[Refusal.EXCEPTION], NONE).astype(np.int8)
        ranges = sorted(self.code.kernel.image.reserved, reverse=True)
        starts, ends = (np.array([each[i] for each in ranges], np.uint64) for i in (0, 1))
        reasons = np.array([_COLUMN[reason] for _, _, reason in ranges], np.int8)
        low = np.searchsorted(sweep.ends, starts, "right")
        counts = np.maximum(np.searchsorted(sweep.starts, ends) - low, 0)
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        fixed[np.repeat(low, counts) + within] = np.repeat(reasons, counts)
        return fixed

    @cached_property
    def room(self) -> Addresses:
        """The end of the bytes that a splice in each block may overwrite: the block's end, or that of the int3 behind a
        return.
        """
        sweep, last = self.code.kernel.sweep, self.blocks.last
        others = np.flatnonzero(sweep.codes != Code.INT3)
        following = np.append(others, len(sweep.starts) - 1)[np.searchsorted(others, last + 1)]
        traps = np.minimum(sweep.starts[following], self.padding)
        return np.where(sweep.flows[last] == OpcodeFlow.RETURN, np.maximum(traps, sweep.ends[last]), sweep.ends[last])

    @cached_property
    def padding(self) -> Addresses:
        """The end of the padding behind each block, which nothing runs into; the block's end if there is none."""
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

    def before(self) -> KernelStretches:
        """The points before blocks. The point before a traced function's first block lies behind ftrace's nop."""
        blocks, sweep = self.blocks, self.code.kernel.sweep
        low = blocks.first.copy()
        traced = np.isin(sweep.starts[low], self.code.kernel.fentries) & (blocks.last > low)
        low[traced] += 1
        high = np.minimum(blocks.last, _next(self._calls, low))
        stop = _next(self._fixed, low)
        high = np.where(stop == low, low, np.minimum(high, stop - 1))
        return self._points(low, high, low, self.fixed[low])

    def after(self) -> KernelStretches:
        """The points after the last instruction of each block that does not transfer control; a call counts as a
        transfer.
        """
        code, blocks = self.code, self.blocks
        first, last = blocks.first, blocks.last
        fixed = self.fixed
        # A point before a transfer that must not move is put behind the instruction before it, unless that is a call.
        back = (code.ending | code.calls)[last] & (fixed[last] != NONE) & (last > first) & ~code.calls[last - 1]
        wanted = np.where(back, last - 1, last)
        alone = code.calls[wanted] & (code.kernel.sweep.lengths[wanted] >= CALL_SIZE)
        low = np.maximum(first, np.maximum(_last(self._calls, wanted), _last(self._fixed, wanted)) + 1)
        low = np.where(alone | (fixed[wanted] != NONE), wanted, low)
        return self._points(low, wanted, wanted, fixed[wanted])

    @cached_property
    def _calls(self) -> Rows:
        return np.flatnonzero(self.code.calls)

    @cached_property
    def _fixed(self) -> Rows:
        return np.flatnonzero(self.fixed != NONE)

    def _points(self, low: Rows, high: Rows, wanted: Rows, refused: Columns) -> KernelStretches:
        code, sweep = self.code, self.code.kernel.sweep
        final = high == self.blocks.last
        room = np.where(final, self.room, sweep.ends[high])
        returns = code.calls[high] & ~(final & (code.closed | code.dropped)[high])
        return KernelStretches(self, low, high, wanted, room, refused, returns)

    @cached_property
    def traced(self) -> Flags:
        """Whether each block is a function's entry at which ftrace has a call."""
        return np.isin(self.starts[self.blocks.first], self.code.kernel.fentries)

    @cached_property
    def strict(self) -> Flags:
        """Whether each function has a jump of unknown target, which may lead anywhere in it."""
        rows = self.code.owner[self.code.kernel.sweep.flows == OpcodeFlow.JUMP_INDIRECT]
        found = np.zeros(len(self.code.analysis.spans.starts), np.bool_)
        found[rows[rows >= 0]] = True
        return found

    @property
    def starts(self) -> Addresses:
        return self.code.kernel.sweep.starts

    def covering(self, start: Rows, size: int) -> Rows:
        """The rows of the instructions that hold the last of the ``size`` bytes from each of ``start`` on."""
        return np.searchsorted(self.starts, self.starts[start] + np.uint64(size)) - 1

    @cached_property
    def behind(self) -> Addresses:
        """The address at which the next function begins, for each function; the end of the last one."""
        spans = self.code.analysis.spans
        return np.append(spans.starts[1:], spans.ends[-1])

    @cached_property
    def _idle(self) -> Rows:
        """The rows of free padding at which a jump may begin."""
        sweep, blocks = self.code.kernel.sweep, self.blocks
        room, ends = self.padding, sweep.ends[blocks.last]
        free = np.flatnonzero(room > ends)
        low, high = blocks.last[free] + 1, np.searchsorted(self.starts, room[free])
        size = len(sweep.starts) + 1
        idle = np.cumsum(np.bincount(low, minlength=size) - np.bincount(high, minlength=size))[:-1] > 0
        single = idle & (sweep.lengths == 1)
        run = np.convolve(single, np.ones(JUMP_SIZE, np.int64))[JUMP_SIZE - 1 :] == JUMP_SIZE
        return np.flatnonzero((idle & (sweep.lengths >= JUMP_SIZE)) | run[: len(idle)])

    @cached_property
    def pads(self) -> Addresses:
        """Addresses of padding inside functions, at which a jump may begin."""
        return self.starts[self._idle[self.code.owner[self._idle] >= 0]]

    @cached_property
    def gaps(self) -> Addresses:
        """Addresses of padding between functions, at which a jump may begin."""
        return self.starts[self._idle[self.code.owner[self._idle] < 0]]


class KernelStretches:
    """The stretches (see Stretches in tactics/tactic.py), one for each block. ``refused`` is a column of OUTCOMES for a
    point that cannot be spliced, otherwise NONE.
    """

    def __init__(
        self, cuts: Cuts, low: Rows, high: Rows, wanted: Rows, room: Addresses, refused: Columns, returns: Flags
    ) -> None:
        self.low, self.high, self.wanted = low, high, wanted
        self.room, self.refused, self.returns = room, refused, returns
        self.traced = cuts.traced
        self.lenders = np.zeros(len(low), np.bool_)
        self._cuts = cuts
        self._code, self._blocks, self._starts = cuts.code, cuts.blocks, cuts.starts

    def single_call(self, size: int) -> Flags:
        lengths = self._code.kernel.sweep.lengths
        found: Flags = (self.low == self.high) & self._code.calls[self.high] & (lengths[self.high] == size)
        return found

    def start(self, which: Rows, size: int) -> Rows:
        latest = np.searchsorted(self._starts, self.room[which] - np.uint64(size), "right") - 1
        return np.maximum(np.minimum(self.wanted[which], latest), self.low[which])

    def fits(self, which: Rows, start: Rows, size: int) -> Flags:
        """Whether the bytes can be overwritten: nothing leads into them but to the first, and they are one instruction
        if control may enter the function anywhere.
        """
        at, inner = self._starts[start], self._blocks.inner
        unentered = np.searchsorted(inner, at + np.uint64(1)) == np.searchsorted(inner, at + np.uint64(size))
        whole = (self._code.kernel.sweep.lengths[start] >= size) | ~self._strict[which]
        found: Flags = (at + np.uint64(size) <= self.room[which]) & whole & unentered
        return found

    def covering(self, start: Rows, size: int) -> Rows:
        return self._cuts.covering(start, size)

    def lands(self, which: Rows, start: Rows, back: int, ahead: int) -> Flags:
        """Whether there is room for a jump in padding of the function, in padding between it and the next one, or in
        bytes that another splice may lend.
        """
        cuts, owner = self._cuts, self._blocks.owner[which]
        low, high = self._starts[start] - np.uint64(back), self._starts[start] + np.uint64(ahead)
        spans = self._code.analysis.spans
        own = (np.maximum(low, spans.starts[owner]), np.minimum(high, spans.ends[owner]))
        near = _any(cuts.pads, own) | _any(cuts.gaps, (low, np.minimum(high, cuts.behind[owner])))
        return near | (_any(self._lent, own) & ~self._strict[which])

    @cached_property
    def _strict(self) -> Flags:
        return self._cuts.strict[self._blocks.owner]

    @cached_property
    def _lent(self) -> Addresses:
        """The addresses of free bytes behind a jump that displaces more than it needs to, or behind one that may be put
        there only to free them.
        """
        sweep, fixed, last = self._code.kernel.sweep, self._cuts.fixed, self._blocks.last
        stops = np.flatnonzero(self._code.calls | (fixed != NONE))
        marks = np.zeros(len(sweep.starts) + 1, np.bool_)
        marks[self._blocks.first] = marks[stops + 1] = True
        marks[self.low] = False
        marks[self.start(np.flatnonzero(self.lenders), JUMP_SIZE)] = True
        start = np.flatnonzero(marks[:-1])
        block = np.searchsorted(self._blocks.first, start, "right") - 1
        start, block = start[start <= last[block]], block[start <= last[block]]
        stop = np.append(stops, len(sweep.starts))[np.searchsorted(stops, start)]
        end = sweep.ends[np.maximum(np.minimum(stop - 1, last[block]), start)]
        at = self._starts[start]
        cover = sweep.ends[self._cuts.covering(start, 2 * JUMP_SIZE)]
        most = np.uint64(KERNEL.max_borrow)
        good = (stop > start) & (at + np.uint64(2 * JUMP_SIZE) <= end) & (cover <= at + most)
        places: Addresses = at[good] + np.uint64(JUMP_SIZE)
        return places


def _next(rows: Rows, at: Rows) -> Rows:
    """The first of ``rows`` that is not less than each of ``at``; a number far beyond all rows if there is none."""
    return np.append(rows, 1 << 60)[np.searchsorted(rows, at)]


def _last(rows: Rows, at: Rows) -> Rows:
    """The last of ``rows`` that is less than each of ``at``; -1 if there is none."""
    return np.append(-1, rows)[np.searchsorted(rows, at)]


def _any(places: Addresses, reach: tuple[Addresses, Addresses]) -> Flags:
    """Whether any of ``places``, which are sorted, is in each closed range of ``reach``."""
    low, high = reach
    return np.searchsorted(places, low) < np.searchsorted(places, high, "right")
