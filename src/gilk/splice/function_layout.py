# SPDX-License-Identifier: LGPL-2.1-or-later
"""The layout of one function for the planner: its segments, the padding around it, and the places where control may
enter.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

from gilk.analysis.jumps import within
from gilk.analysis.liveness import all_live
from gilk.analysis.model import EVERYTHING, Block, End, Function, LiveInstruction
from gilk.arch.asm import INT3, JUMP_SIZE
from gilk.arch.decode import RETURN, raises
from gilk.image.model import FunctionSpan
from gilk.splice.byte_registry import padding_end, whole_pads
from gilk.splice.patch_context import PatchContext
from gilk.splice.plan import Refusal, Want
from gilk.splice.segments import PADDED, Segment, place, segments_of, split_call

_MARGIN = 256  # the distance in bytes from a function up to which padding is looked at for bounces


class FunctionLayout:
    """A function's segments, made as they are needed, with the instruments that are wanted in them.

    ``strict``: control may come to any instruction, so no splice may cover more than one. That is so in a function with
    jumps of unknown target, and in Go, whose runtime suspends a goroutine between any two instructions and goes on
    there later by an ordinary return (runtime/preempt.go). ``reserved``: the ranges in which no instruction may be
    moved. ``exact``: instructions come with what is live before them, and not as if everything were.
    """

    def __init__(self, context: PatchContext, function: Function, immovable: dict[int, str], exact: bool) -> None:
        self.function = function
        self.registry = context.registry
        self.policy = context.policy
        self._context = context
        self._analysis = context.analysis
        self._image = context.analysis.image
        self._immovable = immovable
        self._exact = exact
        self._segments: dict[int, list[Segment]] = {}
        self._inner = sorted(function.inner)
        self._gaps: list[tuple[int, int]] | None = None
        start, end = function.start, function.end
        self.reserved = context.reserved(start - _MARGIN, end + _MARGIN)
        self.strict = self._image.is_go or self._is_open_itself()

    def _is_open_itself(self) -> bool:
        return bool(self.function.indirect) or any(self._is_open(start) for start, _ in self.function.parts)

    def _is_open(self, start: int) -> bool:
        span = self._image.span_at(start)
        return span is not None and bool(self._analysis.function(span).indirect)

    def is_reserved(self, start: int, end: int) -> bool:
        return any(low < end and start < high for low, high, _ in self.reserved)

    def reserved_for(self, start: int, end: int) -> Refusal:
        """The reason for which [start, end), which must be reserved, is reserved."""
        return Refusal(next(why for low, high, why in self.reserved if low < end and start < high))

    def entered_between(self, start: int, end: int) -> bool:
        """Whether a branch from anywhere leads into [start, end) to an address that is no block's start."""
        inner = self._inner
        if not inner:
            return False
        i = bisect.bisect_left(inner, start)
        return i < len(inner) and inner[i] < end

    # Segments.

    def assign(self, wants: Iterable[Want]) -> list[Want]:
        """Hand each want to its segment; returns the wants that no segment has a place for."""
        strays, touched = [], set()
        for want in wants:
            block = self.function.block_at(want.address)
            if block is None:
                strays.append(want)
                continue
            touched.add(block.index)
            live = self._live_after(block) if want.after else 0
            if not place(self.of_block(block.index), want, live):
                strays.append(want)
        for index in touched:
            self._segments[index] = [part for segment in self._segments[index] for part in split_call(segment)]
        return strays

    def _live_after(self, block: Block) -> int:
        return self._analysis.live_after(self.function, block) if self._exact else EVERYTHING

    def of_block(self, index: int) -> list[Segment]:
        found = self._segments.get(index)
        if found is None:
            block = self.function.blocks[index]
            steps = self._steps(block)
            room = self._room(index) if block.how in PADDED else block.end
            if self.policy.whole_instructions:
                room = self._trapping(steps[-1], room)
            immovable = self._immovable | self._fixed(steps)
            found = self._segments[index] = segments_of(
                block, steps, room, immovable, self.policy.cut_at_fixed, self.function.check
            )
        return found

    def _steps(self, block: Block) -> tuple[LiveInstruction, ...]:
        return self._analysis.steps(self.function, block) if self._exact else all_live(self.function, block)

    def _fixed(self, steps: tuple[LiveInstruction, ...]) -> dict[int, str]:
        """The addresses of instructions that keep their meaning only at their own address, with the reason."""
        if self.policy.exceptions:
            return {}
        fixed: dict[int, str] = {s.instruction.ip: Refusal.EXCEPTION for s in steps if raises(s.instruction)}
        start, end = steps[0].instruction.ip, steps[-1].instruction.next_ip
        near = [found for found in self.reserved if found[0] < end and start < found[1]]
        for low, high, reason in reversed(near):
            touched = (s.instruction for s in steps if s.instruction.ip < high and low < s.instruction.next_ip)
            fixed.update((instruction.ip, reason) for instruction in touched)
        return fixed

    def wanted(self) -> list[Segment]:
        return [s for index in sorted(self._segments) for s in self._segments[index] if s.wanted]

    def segments(self, low: int, high: int) -> list[Segment]:
        """The segments that overlap [low, high)."""
        blocks = self.function.blocks
        index = max(bisect.bisect_right(blocks, low, key=lambda block: block.start) - 1, 0)
        found = []
        while index < len(blocks) and blocks[index].start < high:
            found += [s for s in self.of_block(index) if s.end > low and s.start < high]
            index += 1
        return found

    # Padding.

    def _room(self, index: int) -> int:
        """The address up to which the bytes behind a block are padding that no branch leads into."""
        blocks = self.function.blocks
        end = blocks[index].end
        if index + 1 < len(blocks):
            limit = blocks[index + 1].start
        else:
            span = self._image.span_after(self.function.end)
            limit = span.start if span else self.function.end
        return self._context.idle_end(end, padding_end(self._image, end, limit))

    def _trapping(self, last: LiveInstruction, room: int) -> int:
        """The end of the int3 that follow a return, at most ``room``; the end of ``last`` if that is no return."""
        end = last.instruction.next_ip
        if last.instruction.flow_control != RETURN:
            return end
        data = self._image.read(end, room - end)
        return end + len(data) - len(data.lstrip(INT3))

    def padding(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """The stretches (start, end) of padding in and around the function that overlap [low, high)."""
        if self._gaps is None:
            gaps = (*self._inside(), *self._before(), *self._behind())
            self._gaps = [gap for gap in gaps if self._context.is_idle(*gap)]
        return (gap for gap in self._gaps if gap[0] < high and gap[1] > low)

    def pads(self, low: int, high: int, needed: bool) -> Iterator[int]:
        """The addresses in padding, from ``low`` to ``high``, at which the jump of a bounce may begin; in each stretch
        the last comes first, so that it lies as far behind a function's end as possible. ``needed``: include padding
        that the end of the function in front of it may need.
        """
        for gap, end in self.padding(low, high + JUMP_SIZE):
            begin = gap if needed or gap == self.function.end else gap + self._context.tails.get(gap, 0)
            if self.policy.whole_instructions:
                yield from (at for at in whole_pads(self._image, begin, end, JUMP_SIZE) if low <= at <= high)
            else:
                yield from reversed(range(max(begin, low), min(end, high + JUMP_SIZE) - JUMP_SIZE + 1))

    def _inside(self) -> Iterator[tuple[int, int]]:
        blocks = self.function.blocks
        for index, block in enumerate(blocks):
            if block.how in PADDED and (index + 1 == len(blocks) or blocks[index + 1].start > block.end):
                end = self._room(index)
                if end > block.end:
                    yield block.end, end

    def _before(self) -> Iterator[tuple[int, int]]:
        """The padding between functions that end before this one, within 256 bytes of its start."""
        start = self.function.start
        while (previous := self._image.span_before(start)) is not None and self.function.start - previous.end < 256:
            if previous.end < start and self._is_padded(previous, start):
                yield previous.end, start
            start = previous.start

    def _behind(self) -> Iterator[tuple[int, int]]:
        """The padding between functions behind this one, within 256 bytes of its end."""
        span = self._image.span_after(self.function.end)
        while span is not None and span.start - self.function.end < _MARGIN:
            following = self._image.span_after(span.end)
            if following is not None and span.end < following.start and self._is_padded(span, following.start):
                yield span.end, following.start
            span = following

    def _is_padded(self, span: FunctionSpan, following: int) -> bool:
        """Whether the bytes between a function and the next one are padding that is never executed. Some functions run
        on through the nops there, such as __memcpy_chk of glibc, which runs on into memcpy.
        """
        if padding_end(self._image, span.end, following) != following:
            return False
        blocks = self._analysis.function(span).blocks
        return bool(blocks) and blocks[-1].end == span.end and blocks[-1].how in PADDED

    @cached_property
    def predecessors(self) -> dict[int, list[Block]]:
        """The blocks that lead to each block, by its start."""
        found: dict[int, list[Block]] = defaultdict(list)
        for block in self.function.blocks:
            for successor in block.successors:
                found[successor].append(block)
        return found

    @cached_property
    def unknown_entries(self) -> set[int]:
        """The addresses that control may reach in other ways than by a branch of this function."""
        function, jumps = self.function, self._analysis.jumps
        found = {function.start, *jumps.into(function.start, function.end)}
        found.update(within(jumps.taken, function.start, function.end))
        found.update(within(jumps.pointers, function.start, function.end))
        symbols = self._context.symbols
        found.update(symbols[bisect.bisect_left(symbols, function.start) : bisect.bisect_left(symbols, function.end)])
        if any(self._has_table(start) for start, _ in function.parts):
            found.update(block.start for block in function.blocks)
        return found | {block.start for block in function.blocks if block.landing_pad}

    def _has_table(self, start: int) -> bool:
        """Whether the part of the function that begins at ``start`` has jumps by a table, which may lead anywhere in
        this one.
        """
        span = self._image.span_at(start)
        return span is None or any(block.how is End.TABLE for block in self._analysis.function(span).blocks)
