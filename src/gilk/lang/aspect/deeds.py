# SPDX-License-Identifier: LGPL-2.1-or-later
"""The model's answer to an event: what became of instances, and what advice did, in that order; and counts of it."""

from __future__ import annotations

from enum import StrEnum

from gilk.values import dataclass


class Did(StrEnum):
    """``ENDS`` are the ways in which an instance ends."""

    BEGAN = "began"
    MOVED = "moved"
    ENDED = "ended"
    UNTIL = "until"
    LATE = "late"
    REPLACED = "replaced"
    GONE = "gone"
    LOST = "lost"
    INSIDE = "inside"
    ABANDONED = "abandoned"
    ADVICE = "advice"
    PROCEEDS = "proceeds"
    RETURNS = "returns"
    SKIPPED = "skipped"
    REPORTS = "reports"
    ADDS = "adds"
    DENIES = "denies"
    SETS = "sets"
    JOINS = "joins"
    LEAVES = "leaves"
    TURNS_ON = "turns on"
    TURNS_OFF = "turns off"
    CALLS = "calls"


#: An instance that matched to its last element, one that was ended without, one that grew too old, one whose place
#: another took, one that nobody could continue any more.
ENDS = (Did.ENDED, Did.UNTIL, Did.LATE, Did.REPLACED, Did.GONE)


@dataclass(frozen=True, slots=True)
class Deed:
    """``instance``: its number in its aspect, from 1; ``element``: from 0. Each is None where it is about none.

    ``words``: what a report says, a value, the text of advice.
    """

    did: Did
    aspect: str
    instance: int | None = None
    element: int | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class AspectTally:
    """Counts of an aspect: ``begun`` instances are those that ended and those that are open. ``lost`` had no room.

    ``matches``: by element. ``inside``: join points in advice of its own file. ``abandoned``: advice that was left.
    """

    matches: tuple[int, ...]
    begun: int = 0
    open: int = 0
    ended: int = 0
    until: int = 0
    late: int = 0
    replaced: int = 0
    gone: int = 0
    lost: int = 0
    inside: int = 0
    abandoned: int = 0
