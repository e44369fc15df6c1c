# SPDX-License-Identifier: LGPL-2.1-or-later
"""Chooses, for each wanted segment of a function, where and how to splice.

Costs are in units of about half a nanosecond, measured: a jump 1, a second
jump 1 more, a return the processor cannot predict 12.
"""

from __future__ import annotations

import bisect
from dataclasses import field

from gilk.splice.ground import Body
from gilk.splice.plan import Tactic
from gilk.splice.segments import Segment, is_call
from gilk.values import dataclass

JUMP_SIZE, BOUNCE_SIZE = 5, 2
_COST = {Tactic.JUMP: 2, Tactic.CALL: 1}
_CHEAP = 2
_MISPREDICTED = 12
_REACH_BACK, _REACH_AHEAD = 128 - BOUNCE_SIZE, 127 + BOUNCE_SIZE


@dataclass(slots=True, eq=False)
class Choice:
    """Splice ``segment`` at step ``first``; steps ``first`` to ``last`` run in the patch.

    ``window`` bytes are overwritten from the start of ``first``; ``bounce`` is
    where a two-byte jump finds its five-byte one. ``spare``: bounces of others
    in what is displaced.
    """

    segment: Segment
    tactic: Tactic
    first: int
    last: int
    window: int
    bounce: int = 0
    spare: list[int] = field(default_factory=list)

    @property
    def start(self) -> int:
        return self.segment.heads[self.first]

    @property
    def movable(self) -> int:
        """How many steps of the segment the patch may take over: not a call that returns, nor what cannot move."""
        segment = self.segment
        return min(len(segment.steps) - segment.calls, segment.fast)


class Chooser:
    """Choices for the segments of one function; claims their bytes."""

    def __init__(self, body: Body, without_pun: set[int]) -> None:
        self._body = body
        self._registry = body.registry
        self._without_pun = without_pun
        self.choices: dict[int, Choice] = {}  # by the segment's start

    def run(self) -> list[Segment]:
        """Cheap jumps first, since they free the bytes that bounces need; then the rest. What is left has no tactic."""
        late = []
        for segment in self._body.wanted():
            choice, cost = self._direct(segment, segment.first, segment.last)
            if choice and cost <= _CHEAP:
                self._take(choice)
            else:
                late.append(segment)
        return [segment for segment in late if not self._take_late(segment)]

    def _take(self, choice: Choice) -> None:
        self.choices[choice.segment.start] = choice
        if choice.window:
            start = choice.start
            self._registry.claim(start, start + choice.window)

    def copy(self, segment: Segment, last: int) -> None:
        """Have a segment run in a patch that only other patches lead to."""
        self._take(Choice(segment, Tactic.COPY, 0, last, 0))

    def drop(self, choice: Choice) -> None:
        """Undo ``splice``."""
        del self.choices[choice.segment.start]
        self._registry.release(choice.start, choice.start + choice.window)
        if choice.bounce:
            self._release_bounce(choice.bounce)

    def _release_bounce(self, site: int) -> None:
        self._registry.release(site, site + JUMP_SIZE)
        for other in self.choices.values():
            if site in other.spare:
                other.spare.remove(site)

    def _take_late(self, segment: Segment) -> bool:
        first, last = segment.first, segment.last
        choice = (
            self._bounce(segment, first, last, cheap=True)
            or self._direct(segment, first, last)[0]
            or self._bounce(segment, first, last, cheap=False)
        )
        if choice is None and self._body.policy.puns:
            choice = self._pun(segment, first, last)
        if choice:
            self._take(choice)
        return choice is not None

    def splice(self, segment: Segment) -> Choice | None:
        """Splice a segment nobody asked for, so that its end runs in a patch; None when it cannot be had cheaply."""
        last = len(segment.steps) - 1
        choice = self._direct(segment, last, last)[0] or self._bounce(segment, last, last, cheap=True)
        if choice:
            self._take(choice)
        return choice

    def trap(self, segment: Segment) -> bool:
        """One byte, of the first instruction that must run in the patch; False where not even that can be had."""
        choice = self._window(segment, Tactic.TRAP, segment.first, segment.last, 1)
        if choice:
            self._take(choice)
        return choice is not None

    # Jumps and calls.

    def _direct(self, segment: Segment, latest: int, last: int) -> tuple[Choice | None, int]:
        """The cheapest jump or call, and its cost."""
        best: tuple[Choice | None, int] = (None, 1 << 30)
        for first in range(latest, -1, -1):
            choice = self._call_at(segment, first) or self._jump_at(segment, first, last)
            if choice:
                cost = self._cost(choice)
                if cost < best[1]:
                    best = choice, cost
                if cost <= _CHEAP:
                    break
        return best

    def _cost(self, choice: Choice) -> int:
        if choice.tactic is Tactic.CALL:
            return _COST[Tactic.CALL]
        moved_call = choice.segment.calls and choice.last == len(choice.segment.steps) - 1
        return _COST[Tactic.JUMP] + _MISPREDICTED * moved_call

    def _call_at(self, segment: Segment, first: int) -> Choice | None:
        if first != len(segment.steps) - 1 or first not in segment.before or not is_call(segment.steps[first]):
            return None
        start, end = segment.heads[first], segment.heads[first + 1]
        if end - start < JUMP_SIZE or len(segment.before) > 1 or segment.fast <= first:
            return None
        if end - start > JUMP_SIZE and not self._body.policy.prefixed:
            return None
        if not self._writable(start, end) or self._body.entered_between(start + 1, end):
            return None
        return Choice(segment, Tactic.CALL, first, first, end - start)

    def _jump_at(self, segment: Segment, first: int, last: int) -> Choice | None:
        start = segment.heads[first]
        if start + JUMP_SIZE > segment.room:
            return None
        return self._window(segment, Tactic.JUMP, first, last, JUMP_SIZE)

    def _window(self, segment: Segment, tactic: Tactic, first: int, last: int, window: int) -> Choice | None:
        """A choice that overwrites ``window`` bytes, if that is possible."""
        start = segment.heads[first]
        end = start + window
        last = max(self._covering(segment, end), last)
        if last >= segment.fast or not self._writable(start, end):
            return None
        body = self._body
        if body.entered_between(start + 1, end):
            return None
        if body.strict and segment.heads[first + 1] < min(end, segment.end):
            return None
        if body.reserved and body.is_reserved(start, segment.heads[last + 1]):
            return None
        return Choice(segment, tactic, first, last, window)

    @staticmethod
    def _covering(segment: Segment, end: int) -> int:
        """Index of the step that holds the byte before ``end``, or the last one when that is padding."""
        heads = segment.heads
        return min(bisect.bisect_left(heads, end, 1) - 1, len(heads) - 2)

    def _writable(self, start: int, end: int) -> bool:
        return self._registry.free(start, end) and not (self._body.reserved and self._body.is_reserved(start, end))

    # Bounces.

    def _bounce(self, segment: Segment, latest: int, last: int, cheap: bool) -> Choice | None:
        """``cheap``: not where a call would have to be moved that nobody asked to move."""
        for first in range(latest, -1, -1):
            start = segment.heads[first]
            if start + BOUNCE_SIZE > segment.room:
                continue
            choice = self._window(segment, Tactic.BOUNCE, first, last, BOUNCE_SIZE)
            if choice is None or (cheap and segment.calls and choice.last == len(segment.steps) - 1 > last):
                continue
            self._registry.claim(start, start + BOUNCE_SIZE)
            site = self._bounce_site(start)
            self._registry.release(start, start + BOUNCE_SIZE)
            if site:
                choice.bounce = site
                return choice
        return None

    def _bounce_site(self, start: int) -> int:
        """Five bytes within reach of a two-byte jump at ``start``, claimed: unused ones, or freed for the purpose."""
        low, high = start - _REACH_BACK, start + _REACH_AHEAD
        for address in self._body.pads(low, high):
            if self._usable(address):
                self._registry.claim(address, address + JUMP_SIZE)
                return address
        if self._body.strict:
            return 0
        near = self._body.segments(low, high + JUMP_SIZE)
        return self._freed(near, low, high) or self._freed_for_this(near, low, high)

    def _usable(self, address: int) -> bool:
        end = address + JUMP_SIZE
        return self._writable(address, end) and not self._body.entered_between(address, end)

    def _freed(self, near: list[Segment], low: int, high: int) -> int:
        for segment in near:
            choice = self.choices.get(segment.start)
            if choice and choice.window:
                found = self._free_within(choice, low, high)
                if found:
                    return found
        return 0

    def _freed_for_this(self, near: list[Segment], low: int, high: int) -> int:
        """Splice a segment nobody asked for, only to free what lies behind the jump."""
        for segment in near:
            if segment.wanted or segment.start in self.choices or segment.end - segment.start < 2 * JUMP_SIZE:
                continue
            victim = self._jump_at(segment, 0, 0)
            if victim is None or self._cost(victim) > _CHEAP:
                continue
            found = self._free_within(victim, low, high)
            if found:
                self._take(victim)
                return found
        return 0

    def _free_within(self, choice: Choice, low: int, high: int) -> int:
        """Five bytes that are displaced, or can be besides."""
        segment, movable, lends = choice.segment, choice.movable, self._body.policy.lends
        if choice.tactic is Tactic.CALL or movable <= choice.first or (lends and choice.tactic is not Tactic.JUMP):
            return 0
        begin = max(choice.start + choice.window, low)
        end = min(segment.heads[movable], high + JUMP_SIZE)
        for address in range(begin, end - JUMP_SIZE + 1):
            if not self._usable(address):
                continue
            covering = self._covering(segment, address + JUMP_SIZE)
            if lends and segment.heads[covering + 1] > choice.start + lends:
                return 0
            last = max(choice.last, covering)
            if self._body.reserved and self._body.is_reserved(choice.start, segment.heads[last + 1]):
                return 0
            self._registry.claim(address, address + JUMP_SIZE)
            choice.last = last
            choice.spare.append(address)
            return address
        return 0

    # Puns.

    def _pun(self, segment: Segment, latest: int, last: int) -> Choice | None:
        """As many bytes as there are; whether a displacement fits is seen once all other sites are settled."""
        for first in range(latest, -1, -1):
            start, end = segment.heads[first], segment.room
            if self._body.strict and first < len(segment.steps) - 1:
                end = segment.heads[first + 1]
            if start not in self._without_pun:
                choice = self._window(segment, Tactic.PUN, first, last, min(end - start, JUMP_SIZE))
                if choice:
                    return choice
        return None
