# SPDX-License-Identifier: LGPL-2.1-or-later
"""The copy tactic: blocks that need no splice, because everything that leads to them runs in a patch already.

A jump in a patch to a block that has a patch goes straight to that patch. So a block that is too short for any splice
(a lone ``ret``, for example) can be instrumented by moving the ends of all blocks before it into patches. It must be
known that nothing else leads to the block: no table, no return address, no other function.
"""

from __future__ import annotations

from typing import Final

from gilk.analysis.model import Block, End
from gilk.splice.segments import Segment
from gilk.splice.tactics.tactic import Choice, Choices, Effort, Tactic

_INDIRECT = frozenset((End.TABLE, End.INDIRECT, End.TAIL_INDIRECT))


class CopyTactic(Tactic):
    name, number = "copy", 4

    def propose(self, choices: Choices, segment: Segment, first: int, last: int, effort: Effort) -> Choice | None:
        return None if choices.layout.strict else _Attempt(choices, segment).run()


COPY: Final = CopyTactic()


class _Attempt:
    """Tries to make one segment a copy, and to splice whatever that needs; undoes all of it if that fails."""

    def __init__(self, choices: Choices, segment: Segment) -> None:
        self._choices = choices
        self._layout = choices.layout
        self._copies: dict[int, Choice] = {}  # by the start of the segment
        self._todo: list[Segment] = []
        self._spliced: list[Choice] = []
        self._extended: list[Choice] = []
        self._first = segment

    def run(self) -> Choice | None:
        good = self._add(self._first) and self._close()
        if not good:
            for choice in reversed(self._spliced):
                self._choices.drop(choice)
            return None
        for choice in self._extended:
            choice.last = len(choice.segment.steps) - 1
        first = self._copies.pop(self._first.start)
        for choice in self._copies.values():
            self._choices.take(choice)
        return first

    def _close(self) -> bool:
        while self._todo:
            segment = self._todo.pop()
            if not all(self._leaves_by_patch(block) for block in self._layout.predecessors[segment.start]):
                return False
        return True

    def _add(self, segment: Segment) -> bool:
        """Make a segment a copy, if its start is entered only by branches of this function; False if it is not."""
        block = self._layout.function.block_at(segment.start)
        known = block is not None and block.start == segment.start and segment.start not in self._layout.unknown_entries
        if not known or segment.last >= segment.fast or self._is_touchy(segment, 0):
            return False
        self._copies[segment.start] = Choice(segment, COPY, 0, segment.last, 0)
        self._todo.append(segment)
        return True

    def _is_touchy(self, segment: Segment, first: int) -> bool:
        """Whether the segment from step ``first`` on is entered in the middle, or may not be moved."""
        start, end = segment.heads[first], segment.end
        return self._layout.entered_between(start + 1, end) or self._layout.is_reserved(start, end)

    def _leaves_by_patch(self, block: Block) -> bool:
        """Have the end of ``block`` run in a patch; False if it cannot."""
        segment = self._layout.of_block(block.index)[-1]
        last = len(segment.steps) - 1
        if block.how in _INDIRECT or segment.calls or segment.fast <= last:
            return False
        if segment.start in self._copies:
            self._copies[segment.start].last = last
            return True
        choice = self._choices.made.get(segment.start)
        if choice is None:
            return self._splice(segment, last)
        if self._is_touchy(segment, choice.first):
            return False
        self._extended.append(choice)
        return True

    def _splice(self, segment: Segment, last: int) -> bool:
        choice = None if segment.wanted else self._choices.splice_end(segment)
        if choice is None:
            if not self._add(segment):
                return False
            self._copies[segment.start].last = last
            return True
        self._spliced.append(choice)
        return not self._is_touchy(segment, choice.first)
