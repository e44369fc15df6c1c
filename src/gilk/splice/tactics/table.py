# SPDX-License-Identifier: LGPL-2.1-or-later
"""All tactics, in the order in which they are tried, with the reasons for that order.

Each round goes through the segments that have no splice yet; the first of a round's rows that finds a way gets the
segment.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from typing import Final

from gilk.splice.plan import Refusal
from gilk.splice.policy import Policy
from gilk.splice.tactics.bounce import BOUNCE
from gilk.splice.tactics.call import CALL
from gilk.splice.tactics.copy import COPY
from gilk.splice.tactics.fentry import FENTRY
from gilk.splice.tactics.jump import JUMP
from gilk.splice.tactics.pun import PUN
from gilk.splice.tactics.tactic import Effort, Round, Row
from gilk.splice.tactics.trap import TRAP

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
def rounds(policy: Policy) -> tuple[tuple[Row, ...], ...]:
    """The rows for segments under ``policy``, round by round."""
    allowed = [row for row in ROWS if row.tactic.allowed(policy, row.effort)]
    return tuple(tuple(rows) for _, rows in groupby(allowed, lambda row: row.round))


def entries() -> tuple[Row, ...]:
    """The rows for entries of kernel functions."""
    return tuple(row for row in ROWS if row.round is Round.ENTRY)


#: All tactics by their names, in the order of their numbers.
TACTICS: Final = {tactic.name: tactic for tactic in sorted({row.tactic for row in ROWS}, key=lambda each: each.number)}
NAMES: Final = tuple(TACTICS)
#: All outcomes of a point: every tactic, then every refusal. Stored figures and plans use the index as a number.
OUTCOMES: Final = (*NAMES, *map(str, Refusal))
