# SPDX-License-Identifier: LGPL-2.1-or-later
"""The last tactic: blocks that need no splice, because whatever leads to them runs in a patch already.

A jump in a patch to a block that has a patch goes straight there. So a block
too short for any splice (a lone ``ret``, say) can be had by moving the ends
of all blocks before it into patches. It must be known that nothing else leads
to it: no table, no return address, no other function.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from gilk.analysis.model import Block, End
from gilk.splice.choice import Chooser
from gilk.splice.chosen import Choice
from gilk.splice.ground import Body
from gilk.splice.segments import Segment

_INDIRECT = frozenset((End.TABLE, End.INDIRECT, End.TAIL_INDIRECT))


class Copier:
    """Rescues segments that a chooser found no tactic for."""

    def __init__(self, body: Body, chooser: Chooser) -> None:
        self._body = body
        self._chooser = chooser

    def rescue(self, segments: list[Segment]) -> list[Segment]:
        """Those that are left without a tactic even so."""
        if self._body.strict:
            return segments
        return [s for s in segments if s.start not in self._chooser.choices and not _Attempt(self, s).succeeds()]

    @property
    def body(self) -> Body:
        return self._body

    @property
    def chooser(self) -> Chooser:
        return self._chooser

    @cached_property
    def before(self) -> dict[int, list[Block]]:
        """Block start -> the blocks that lead to it."""
        found: dict[int, list[Block]] = defaultdict(list)
        for block in self._body.function.blocks:
            for successor in block.successors:
                found[successor].append(block)
        return found

    @cached_property
    def unknown(self) -> set[int]:
        return self._body.unknown_entries()


class _Attempt:
    """Tries to make one segment a copy, and with it whatever that takes; undoes it all when it cannot be done."""

    def __init__(self, copier: Copier, segment: Segment) -> None:
        self._copier = copier
        self._body, self._chooser = copier.body, copier.chooser
        self._copies: dict[int, tuple[Segment, int]] = {}  # segment's start -> it, and the last step to run
        self._todo: list[Segment] = []
        self._spliced: list[Choice] = []
        self._extended: list[Choice] = []
        self._first = segment

    def succeeds(self) -> bool:
        good = self._add(self._first) and self._close()
        if not good:
            for choice in reversed(self._spliced):
                self._chooser.drop(choice)
            return False
        for choice in self._extended:
            choice.last = len(choice.segment.steps) - 1
        for segment, last in self._copies.values():
            self._chooser.copy(segment, last)
        return True

    def _close(self) -> bool:
        while self._todo:
            segment = self._todo.pop()
            if not all(self._leaves_by_patch(block) for block in self._copier.before[segment.start]):
                return False
        return True

    def _add(self, segment: Segment) -> bool:
        """Make it a copy, if its start is entered only by branches of this function."""
        block = self._body.function.block_at(segment.start)
        known = block is not None and block.start == segment.start and segment.start not in self._copier.unknown
        if not known or segment.last >= segment.fast or self._is_touchy(segment, 0):
            return False
        self._copies[segment.start] = segment, segment.last
        self._todo.append(segment)
        return True

    def _is_touchy(self, segment: Segment, first: int) -> bool:
        """Entered in the middle, or not to be moved."""
        start, end = segment.heads[first], segment.end
        return self._body.entered_between(start + 1, end) or self._body.is_reserved(start, end)

    def _leaves_by_patch(self, block: Block) -> bool:
        """Have the end of ``block`` run in a patch."""
        segment = self._body.of_block(block.index)[-1]
        last = len(segment.steps) - 1
        if block.how in _INDIRECT or segment.calls or segment.fast <= last:
            return False
        if segment.start in self._copies:
            self._copies[segment.start] = segment, last
            return True
        choice = self._chooser.choices.get(segment.start)
        if choice is None:
            return self._splice(segment, last)
        if self._is_touchy(segment, choice.first):
            return False
        self._extended.append(choice)
        return True

    def _splice(self, segment: Segment, last: int) -> bool:
        choice = None if segment.wanted else self._chooser.splice(segment)
        if choice is None:
            if not self._add(segment):
                return False
            self._copies[segment.start] = segment, last
            return True
        self._spliced.append(choice)
        return not self._is_touchy(segment, choice.first)
