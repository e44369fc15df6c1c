# SPDX-License-Identifier: LGPL-2.1-or-later
"""Chooses, for each wanted segment of a function, where and how to splice.

Costs are in units of about half a nanosecond, measured: a jump 1, a second
jump 1 more, a return the processor cannot predict 12.
"""

from __future__ import annotations

from collections import Counter

from gilk.splice.chosen import BOUNCE_SIZE, JUMP_SIZE, Choice
from gilk.splice.ground import Body
from gilk.splice.landings import Effort, Landings
from gilk.splice.plan import Tactic
from gilk.splice.segments import Segment, is_call

_COST = {Tactic.JUMP: 2, Tactic.CALL: 1}
_CHEAP = 2
_MISPREDICTED = 12


class Chooser:
    """Choices for the segments of one function; claims their bytes."""

    def __init__(self, body: Body, failed: Counter[int]) -> None:
        """``failed``: how often no displacement fitted, by where the pun was to be."""
        self._body = body
        self._registry = body.registry
        self._failed = failed
        self.choices: dict[int, Choice] = {}  # by the segment's start
        self._landings = Landings(body, self.choices, failed, self._victim, self._take)

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
            self._registry.release(choice.bounce, choice.bounce + choice.landing)

    def _take_late(self, segment: Segment) -> bool:
        first, last = segment.first, segment.last
        choice = (
            self._bounce(segment, first, last, cheap=True)
            or self._direct(segment, first, last)[0]
            or self._bounce(segment, first, last)
            or self._pun(segment, first, last)
        )
        if choice:
            self._take(choice)
        return choice is not None

    def insist(self, segment: Segment) -> bool:
        """What costs more than room, or memory farther away; False where not even that can be had."""
        policy = self._body.policy
        efforts = [Effort.TAKE] if policy.lends else [Effort.MOVE_CALLS, Effort.TAKE]
        if policy.puns:
            efforts.insert(0, Effort.PUN)
        tries = (self._bounce(segment, segment.first, segment.last, effort=effort) for effort in efforts)
        choice = next(filter(None, tries), None) or self._pun(segment, segment.first, segment.last, again=True)
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

    def _victim(self, segment: Segment, calls: bool) -> Choice | None:
        """A jump at the start of a segment that nobody asked for. ``calls``: even if a call has to be moved for it."""
        choice = self._jump_at(segment, 0, 0)
        return choice if choice and (calls or self._cost(choice) <= _CHEAP) else None

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
        last = max(segment.covering(end), last)
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

    def _writable(self, start: int, end: int) -> bool:
        return self._registry.free(start, end) and not (self._body.reserved and self._body.is_reserved(start, end))

    # Bounces.

    def _bounce(
        self, segment: Segment, latest: int, last: int, cheap: bool = False, effort: Effort = Effort.USUAL
    ) -> Choice | None:
        """``cheap``: not where a call would have to be moved that nobody asked to move."""
        for first in range(latest, -1, -1):
            start = segment.heads[first]
            if start + BOUNCE_SIZE > segment.room:
                continue
            choice = self._window(segment, Tactic.BOUNCE, first, last, BOUNCE_SIZE)
            if choice is None or (cheap and segment.calls and choice.last == len(segment.steps) - 1 > last):
                continue
            self._registry.claim(start, start + BOUNCE_SIZE)
            found = self._landings.find(start, effort)
            self._registry.release(start, start + BOUNCE_SIZE)
            if found:
                choice.bounce, choice.landing, choice.host = found
                return choice
        return None

    # Puns.

    def _pun(self, segment: Segment, latest: int, last: int, again: bool = False) -> Choice | None:
        """As many bytes as there are; whether a displacement fits is seen once all other sites are settled.

        ``again``: where that has failed, a trampoline that lies farther away may do, and then other bytes behind.
        """
        for first in range(latest if self._body.policy.puns else -1, -1, -1):
            start, end = segment.heads[first], segment.room
            if self._body.strict and first < len(segment.steps) - 1:
                end = segment.heads[first + 1]
            failed = self._failed[start]
            if failed == again or (again and failed == 2 and self._displaces(segment.end)):
                choice = self._window(segment, Tactic.PUN, first, last, min(end - start, JUMP_SIZE))
                if choice:
                    return choice
        return None

    def _displaces(self, start: int) -> bool:
        """Splice the segment there, if nobody asked for that, so that a pun before it shares other bytes."""
        behind = next((s for s in self._body.segments(start, start + 1) if s.start == start), None)
        if behind is None or behind.wanted or start in self.choices:
            return False
        choice = self._victim(behind, calls=True)
        if choice:
            self._take(choice)
        return choice is not None
