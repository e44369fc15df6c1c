# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where a two-byte jump may find a five-byte one: in padding, or amid code that runs in a patch.

Room is looked for in what is cheap first: padding, what other splices have
displaced, what a splice that nobody asked for would displace. Less than five
bytes will do where the jump can be a pun; and if need be, a call is moved to a
patch, which costs each of its returns a misprediction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from enum import IntEnum, auto
from typing import Final, NamedTuple

from gilk.splice.chosen import BOUNCE_SIZE, JUMP_SIZE, Choice
from gilk.splice.ground import Body
from gilk.splice.plan import Tactic
from gilk.splice.segments import Segment

_REACH_BACK: Final = 128 - BOUNCE_SIZE
_REACH_AHEAD: Final = 127 + BOUNCE_SIZE


class Effort(IntEnum):
    """What may be done for a landing."""

    USUAL = auto()
    PUN = auto()  # it may share bytes with what follows
    MOVE_CALLS = auto()
    TAKE = auto()  # it may lie in padding that another function's end may need


class Landing(NamedTuple):
    """Where the jump of a bounce begins, and how many bytes of its own it has; ``host`` as in Choice."""

    start: int
    size: int
    host: Choice | None


class Landings:
    """Finds them for the bounces of one function, and claims their bytes.

    ``choices``: what has been decided, by segments' starts. ``jump`` makes a choice of a plain jump at the start of a
    segment, for not more than a cost; ``take`` has it done.
    """

    def __init__(
        self,
        body: Body,
        choices: dict[int, Choice],
        failed: Counter[int],
        jump: Callable[[Segment, bool], Choice | None],
        take: Callable[[Choice], None],
    ) -> None:
        self._body = body
        self._registry = body.registry
        self._choices = choices
        self._failed = failed
        self._jump, self._take = jump, take

    def find(self, start: int, effort: Effort) -> Landing | None:
        """For a two-byte jump at ``start``; None when there is none."""
        low, high = start - _REACH_BACK, start + _REACH_AHEAD
        for address in self._body.pads(low, high, effort is Effort.TAKE):
            if self.usable(address, address + JUMP_SIZE):
                return self._claimed(address, JUMP_SIZE, None)
        if self._body.strict or effort is Effort.TAKE:
            return None
        near = self._body.segments(low, high + JUMP_SIZE)
        calls = effort is Effort.MOVE_CALLS
        within = self._shared_within if effort is Effort.PUN else self._whole_within
        for choice in self._displacing(near, calls, effort):
            found = within(choice, low, high, calls)
            if found:
                if choice.segment.start not in self._choices:
                    self._take(choice)
                return found
        return None

    def usable(self, start: int, end: int) -> bool:
        body = self._body
        return (
            self._registry.free(start, end)
            and not (body.reserved and body.is_reserved(start, end))
            and not body.entered_between(start, end)
        )

    def _claimed(self, start: int, size: int, host: Choice | None) -> Landing:
        self._registry.claim(start, start + size)
        return Landing(start, size, host)

    def _displacing(self, near: list[Segment], calls: bool, effort: Effort) -> Iterator[Choice]:
        """Splices that there are; then those of segments that nobody asked for, only to free what lies behind."""
        for segment in near:
            choice = self._choices.get(segment.start)
            if choice and choice.window:
                yield choice
        least = JUMP_SIZE + 1 if effort is Effort.PUN else 2 * JUMP_SIZE
        for segment in near:
            if segment.wanted or segment.start in self._choices or segment.end - segment.start < least:
                continue
            victim = self._jump(segment, calls)
            if victim is not None:
                yield victim

    def _whole_within(self, choice: Choice, low: int, high: int, calls: bool) -> Landing | None:
        """Five bytes that are displaced, or can be besides."""
        segment, movable, lends = choice.segment, choice.movable(calls), self._body.policy.lends
        if choice.tactic is Tactic.CALL or movable <= choice.first or (lends and choice.tactic is not Tactic.JUMP):
            return None
        if not lends:
            movable = max(movable, choice.last + 1)  # a call that has to be moved in any case
        begin = max(choice.start + choice.window, low)
        end = min(segment.heads[movable], high + JUMP_SIZE)
        for address in range(begin, end - JUMP_SIZE + 1):
            if not self.usable(address, address + JUMP_SIZE):
                continue
            covering = segment.covering(address + JUMP_SIZE)
            if lends and segment.heads[covering + 1] > choice.start + lends:
                return None
            last = max(choice.last, covering)
            if self._body.reserved and self._body.is_reserved(choice.start, segment.heads[last + 1]):
                return None
            choice.last = last
            return self._claimed(address, JUMP_SIZE, choice)
        return None

    def _shared_within(self, choice: Choice, low: int, high: int, calls: bool) -> Landing | None:
        """The last bytes that are displaced, where there are less than five; the more the better."""
        if choice.tactic is Tactic.CALL:
            return None
        end = choice.segment.heads[choice.last + 1]
        for address in range(max(choice.start + choice.window, low, end - JUMP_SIZE + 1), min(end, high + 1)):
            if not self._failed[address] and self.usable(address, end):
                return self._claimed(address, end - address, choice)
        return None
