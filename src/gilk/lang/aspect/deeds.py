# SPDX-License-Identifier: LGPL-2.1-or-later
"""The model's answer to an event: the changes of instances and the deeds of advice, in their order, and
counts of them.
"""

from __future__ import annotations

from enum import StrEnum

from gilk.values import dataclass


class Did(StrEnum):
    """The kinds of deeds; ENDS lists the ways in which an instance ends."""

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


#: The ways in which an instance ends: it has matched its last element; an element of ``until`` has matched; it has
#: grown too old; another instance has replaced it; no thread can continue it any more.
ENDS = (Did.ENDED, Did.UNTIL, Did.LATE, Did.REPLACED, Did.GONE)


@dataclass(frozen=True, slots=True)
class Deed:
    """One deed. ``instance``: its number in its aspect, from 1; ``element``: the number of the element, from 0. They
    are None if the deed is not about an instance or an element. ``words``: the text of a report, a value, or the text
    of advice.
    """

    did: Did
    aspect: str
    instance: int | None = None
    element: int | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class AspectTally:
    """The counts of an aspect. ``begun`` counts all instances, whether they have ended or are open. ``lost``: first
    matches for which there was no room. ``matches``: by element. ``inside``: events in advice of the aspect's own file,
    which match nothing. ``abandoned``: advice that waited in a call which was left without a return.
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
