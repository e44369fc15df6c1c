# SPDX-License-Identifier: LGPL-2.1-or-later
"""The pun tactic: a jump whose displacement shares bytes with the code behind it (splice/puns.py), for places where
fewer than five bytes can be moved, and targets in which memory can be had where such a jump leads.
"""

from __future__ import annotations

from typing import Final

from gilk.arch.asm import JUMP_SIZE
from gilk.splice.policy import Policy
from gilk.splice.segments import Segment
from gilk.splice.tactics.jump import JUMP
from gilk.splice.tactics.tactic import Choice, Choices, Effort, Tactic


class PunTactic(Tactic):
    name, number = "pun", 3

    def allowed(self, policy: Policy, effort: Effort) -> bool:
        return policy.any_address

    def propose(self, choices: Choices, segment: Segment, first: int, last: int, effort: Effort) -> Choice | None:
        """A choice with as many bytes of its own as there are; whether a displacement fits is only seen once all other
        sites are settled.

        With the effort TAKE, places are tried again at which that has failed: once with a trampoline that lies farther
        away, then with other bytes behind.
        """
        again = effort is Effort.TAKE
        for index in range(first, -1, -1):
            start, end = segment.heads[index], segment.room
            if choices.layout.strict and index < len(segment.steps) - 1:
                end = segment.heads[index + 1]
            failed = choices.failed[start]
            if failed == again or (again and failed == 2 and _displaces(choices, segment.end)):
                choice = choices.window(segment, self, index, last, min(end - start, JUMP_SIZE))
                if choice:
                    choice.pun = start
                    return choice
        return None


def _displaces(choices: Choices, start: int) -> bool:
    """Splice the segment at ``start``, if nothing is wanted in it, so that a pun before it shares other bytes; False if
    that cannot be done.
    """
    behind = next((s for s in choices.layout.segments(start, start + 1) if s.start == start), None)
    if behind is None or behind.wanted or start in choices.made:
        return False
    choice = JUMP.at(choices, behind, 0, 0)
    if choice:
        choices.take(choice)
    return choice is not None


PUN: Final = PunTactic()
