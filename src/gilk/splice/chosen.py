# SPDX-License-Identifier: LGPL-2.1-or-later
"""What has been decided for one segment: where and how it is spliced."""

from __future__ import annotations

from gilk.splice.plan import Tactic
from gilk.splice.segments import Segment
from gilk.values import dataclass

JUMP_SIZE, BOUNCE_SIZE = 5, 2


@dataclass(slots=True, eq=False)
class Choice:
    """Splice ``segment`` at step ``first``; steps ``first`` to ``last`` run in the patch.

    ``window`` bytes are overwritten from the start of ``first``; ``bounce`` is
    where a two-byte jump finds its five-byte one, of which ``landing`` bytes
    are its own: fewer than five make a pun there. ``host``: the splice that
    displaces what is there; None: it is padding.
    """

    segment: Segment
    tactic: Tactic
    first: int
    last: int
    window: int
    bounce: int = 0
    landing: int = JUMP_SIZE
    host: Choice | None = None

    @property
    def start(self) -> int:
        return self.segment.heads[self.first]

    @property
    def pun(self) -> int:
        """Where a jump of it shares bytes with what follows; 0: nowhere."""
        if self.tactic is Tactic.PUN:
            return self.start
        return self.bounce if self.landing < JUMP_SIZE else 0

    def movable(self, calls: bool) -> int:
        """How many steps of the segment the patch may take over: nothing that cannot move, and what ``calls`` and
        returns only when asked for."""
        segment = self.segment
        return min(len(segment.steps) - (segment.calls and not calls), segment.fast)
