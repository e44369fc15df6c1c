# SPDX-License-Identifier: LGPL-2.1-or-later
"""Values that describe woven aspects: reports, counts, tables, and functions that would be woven. Engines make them,
and the commands show them.
"""

from __future__ import annotations

from gilk.lang.aspect.checked import CheckedTable
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class WovenReport:
    """A report of advice. ``at`` is in ns of CLOCK_MONOTONIC; ``line`` is the line of the element, from 1, or 0 if
    unknown.
    """

    at: int
    pid: int
    tid: int
    aspect: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class GroupChange:
    """Advice in process ``asker`` has asked for the process ``pid`` to join a group, or to leave it."""

    asker: int
    group: str
    pid: int
    joins: bool


@dataclass(frozen=True, slots=True)
class AspectCounts:
    """The counts of an aspect's matches and instances, in all processes. ``matches``: by element of the sequence.

    ``lost``: first matches without room for an instance. ``crowded``: matches without room for their advice.
    ``missed``: attempts to look at an instance that failed because other threads kept writing it. ``gone``: instances
    that could not be continued any more because their thread or process had ended. ``unwalked``: attempts to walk a
    stack (`walk`, `verify`) that failed before its end. ``disagreed``: matches at which calls were recorded as under
    way that the stack did not have (`verify`).
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
    unwalked: int = 0
    disagreed: int = 0


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table. ``key``: its 64 bytes, as the aspect's C fills them. ``squares``: the sum of squares, in tables
    of ``stddev``. ``buckets``: the counts of quantize's buckets (lang/data.py), () in other tables.
    """

    key: bytes
    count: int
    sum: int
    least: int
    most: int
    squares: int = 0
    buckets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WovenTable:
    """The rows of a table, summed over all processes, by key. ``lost``: the number of additions for which there was no
    room.
    """

    table: CheckedTable
    rows: tuple[TableRow, ...]
    lost: int


@dataclass(frozen=True, slots=True)
class WovenElement:
    """An element that would be woven. ``number`` is its number in its aspect, from 1."""

    aspect: str
    number: int
    moment: str


@dataclass(frozen=True, slots=True)
class DryShadow:
    """A function at whose calls elements would match, or that has ``accesses`` instructions with accesses of a variable
    at which they would match. ``refused``: the reason why that is impossible, "" if none is known. ``left_out``: an
    access or function that the aspect does without, and the reason; ``elements`` is then empty. ``points``: how many
    splices the function gets, together with the functions ``also``, to which it jumps at its end and in which its calls
    may return. ``walked``: the functions that are looked for on the stack; ``verified``: calls that are recorded are
    compared with the stack. ``by_thread``: each hit asks whether its thread is a member of a group. ``copies``: where
    the function is inlined, or copied, "" if nowhere; None if there is no debug information that tells.
    ``advised_copies``: which of these have the advice, too, in words: ``inlined copy in main``, ``copy f.constprop.0``.
    ``tactics``: how many of the splices there are of each tactic. ``calls``: what the C calls, of the program and its
    libraries. ``inside``: the threads that are in calls of the function now, by their numbers. ``registers``: how many
    debug registers would watch the variable that ``function`` names; 0 if it names a function.
    """

    pid: int
    image: str
    function: str
    elements: tuple[WovenElement, ...]
    refused: str
    accesses: int = 0
    left_out: str = ""
    points: int = 0
    also: tuple[str, ...] = ()
    walked: tuple[str, ...] = ()
    verified: bool = False
    by_thread: bool = False
    copies: str | None = ""
    advised_copies: tuple[str, ...] = ()
    tactics: tuple[tuple[str, int], ...] = ()
    calls: tuple[str, ...] = ()
    inside: tuple[int, ...] = ()
    registers: int = 0


@dataclass(frozen=True, slots=True)
class WovenSummary:
    """The summary of a weaving. ``restored`` is None for a process that has ended. ``inside``: calls made by advice
    itself of functions that have advice. ``drops``: reports for which the buffer had no room. ``missed``: calls by
    threads that found every block of shared memory taken. ``accesses``: the number of instructions with advice on their
    reads or writes. ``skipped``: calls whose advice had no room on the thread's stack of advice. ``variables``: how
    many variables debug registers watched.
    """

    pid: int
    functions: int
    restored: bool | None
    inside: int
    drops: int
    missed: int
    notes: tuple[str, ...]
    accesses: int = 0
    skipped: int = 0
    variables: int = 0
