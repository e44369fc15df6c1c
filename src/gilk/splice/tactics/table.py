# SPDX-License-Identifier: LGPL-2.1-or-later
"""All tactics, in the order in which they are tried, and why in that order.

Round after round goes through the segments that have no splice yet; of a round's rows the first that finds a way has
the segment.
"""

from __future__ import annotations

from enum import IntEnum, auto
from functools import lru_cache
from typing import Final, NamedTuple

from gilk.splice.plan import Refusal
from gilk.splice.policy import Policy
from gilk.splice.tactics.bounce import BOUNCE
from gilk.splice.tactics.call import CALL
from gilk.splice.tactics.copy import COPY
from gilk.splice.tactics.fentry import FENTRY
from gilk.splice.tactics.jump import JUMP
from gilk.splice.tactics.pun import PUN
from gilk.splice.tactics.tactic import Effort, Tactic, Try
from gilk.splice.tactics.trap import TRAP


class Round(IntEnum):
    FREEING = auto()  # all that is cheap, since what it displaces frees the bytes that bounces need
    EACH = auto()  # the best there is for each by itself
    RESCUE = auto()  # what can do without a splice of its own, if others have theirs
    INSIST = auto()  # what others may have to pay for
    LAST = auto()  # what each hit pays for
    ENTRY = auto()  # the kernel's, once a function is planned, for an entry that has nothing better than the last


class Row(NamedTuple):
    round: Round
    tactic: Tactic
    effort: Effort = Effort.USUAL


ROWS: Final = (
    Row(Round.FREEING, CALL, Effort.CHEAP),  # displaces nothing, and costs half of what a jump does
    Row(Round.FREEING, JUMP, Effort.CHEAP),
    Row(Round.EACH, BOUNCE, Effort.CHEAP),  # two jumps cost less than a call that is moved
    Row(Round.EACH, JUMP),  # moves a call, but needs nobody else's bytes
    Row(Round.EACH, BOUNCE),
    Row(Round.EACH, PUN),  # takes a page of memory, and holds on to bytes of what follows
    Row(Round.RESCUE, COPY),  # when all splices are known that it may build on
    Row(Round.INSIST, BOUNCE, Effort.SHARE),  # takes a page, but no time
    Row(Round.INSIST, BOUNCE, Effort.MOVE_CALLS),  # a function called in vain pays for that
    Row(Round.INSIST, BOUNCE, Effort.TAKE),  # another function may have needed that padding
    Row(Round.INSIST, PUN, Effort.TAKE),
    Row(Round.LAST, TRAP),
    Row(Round.ENTRY, FENTRY),
)


@lru_cache(maxsize=8)
def rounds(policy: Policy) -> tuple[tuple[Try, ...], ...]:
    """The tries for segments where ``policy`` is in force, round by round."""
    tries: dict[Round, list[Try]] = {each: [] for each in Round}
    for each, tactic, effort in ROWS:
        if tactic.allowed(policy, effort):
            tries[each].append(Try(tactic, effort))
    return tuple(tuple(some) for some in tries.values() if some)


def entries() -> tuple[Try, ...]:
    """The tries for entries of the kernel's functions."""
    return tuple(Try(tactic, effort) for each, tactic, effort in ROWS if each is Round.ENTRY)


#: By their names, in the order of their numbers.
TACTICS: Final = {tactic.name: tactic for tactic in sorted({row.tactic for row in ROWS}, key=lambda each: each.number)}
NAMES: Final = tuple(TACTICS)
#: What may become of a point: every tactic, then every refusal. Figures and plans that are kept number them so.
OUTCOMES: Final = (*NAMES, *map(str, Refusal))
