# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reports of woven aspects, their counts and tables, and functions that would be woven."""

from __future__ import annotations

from gilk.lang.aspect.checked import CheckedTable
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class WovenReport:
    """``at``: ns of CLOCK_MONOTONIC; ``line``: of the element's, from 1."""

    at: int
    pid: int
    tid: int
    aspect: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class GroupChange:
    """Advice in process ``asker`` has asked for a process to join a group, or to leave it."""

    asker: int
    group: str
    pid: int
    joins: bool


@dataclass(frozen=True, slots=True)
class AspectCounts:
    """The counts of an aspect's matches and instances, in all processes. ``matches``: by element of the sequence.

    ``lost``: first matches without room for an instance; ``crowded``: matches without room for their advice;
    ``missed``: looks at instances that others were writing for too long; ``gone``: instances that nobody could continue
    any more, as their thread, or their process, had ended.
    """

    name: str
    matches: tuple[int, ...]
    begun: int
    open: int
    ended: int
    until: int
    late: int
    replaced: int
    lost: int
    crowded: int
    missed: int
    gone: int


@dataclass(frozen=True, slots=True)
class TableRow:
    """``key``: 64 bytes, as the aspect's C has them. ``squares``: the sum of squares, in tables of ``stddev``;
    ``buckets``: how often each of quantize's (lang/data.py) was added to, () in other tables."""

    key: bytes
    count: int
    sum: int
    least: int
    most: int
    squares: int = 0
    buckets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WovenTable:
    """The rows of a table, of all processes together, by key; ``lost``: what was not added, for want of room."""

    table: CheckedTable
    rows: tuple[TableRow, ...]
    lost: int


@dataclass(frozen=True, slots=True)
class WovenElement:
    """``number`` is that of the element in its aspect, from 1."""

    aspect: str
    number: int
    moment: str


@dataclass(frozen=True, slots=True)
class DryShadow:
    """A function at whose calls elements would match, or with instructions at whose ``accesses`` of a variable they
    would, so many of them. ``refused``: why that cannot be; "" where nothing is known to
    stand against it. ``left_out``: an access that the aspect does without, and why; then it is of nothing else.
    ``points``: at so many the function gets a splice, or another one of ``also`` does: those in which a call of it may
    return, because it ends in jumps to them."""

    pid: int
    image: str
    function: str
    elements: tuple[WovenElement, ...]
    refused: str
    accesses: int = 0
    left_out: str = ""
    points: int = 0
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WovenSummary:
    """``restored`` is None of a process that has ended. ``inside``: calls that advice itself made of functions that
    have advice. ``drops``: reports that a full buffer had no room for. ``missed``: calls of threads without one.
    ``accesses``: instructions that had advice on what they read or write. ``skipped``: calls whose advice had no room
    on the thread's stack of advice."""

    pid: int
    functions: int
    restored: bool | None
    inside: int
    drops: int
    missed: int
    notes: tuple[str, ...]
    accesses: int = 0
    skipped: int = 0
