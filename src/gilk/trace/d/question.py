# SPDX-License-Identifier: LGPL-2.1-or-later
"""A question to a process, and its answer."""

from __future__ import annotations

from enum import StrEnum

from gilk.values import dataclass


class QuestionUnit(StrEnum):
    """The unit that a column is in."""

    COUNT = "count"
    NANOSECONDS = "ns"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class QuestionColumn:
    """The aggregation ``@name`` of the program; JSON calls it so too."""

    name: str
    unit: QuestionUnit = QuestionUnit.COUNT


@dataclass(frozen=True)
class Question:
    """``program`` is D. Its aggregations ``columns`` share one key, which is called ``key``; rows with the most of
    ``order`` come first. ``totals`` have no key. ``fields`` are the values that a clause records: Answer.records.
    With ``stacks`` the columns have a stack as second key, and the answer has Answer.stacks in place of rows.
    """

    program: str
    key: str = ""
    columns: tuple[QuestionColumn, ...] = ()
    order: str = ""
    totals: tuple[QuestionColumn, ...] = ()
    fields: tuple[str, ...] = ()
    stacks: bool = False


@dataclass(frozen=True, slots=True)
class StackRow:
    """A key, a stack, innermost first, and a number for each column."""

    key: str
    stack: tuple[str, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """One thing that happened: ``values`` by the question's fields, at ``time`` ns of D's clock, in thread ``tid``.
    ``stack`` is innermost first."""

    time: int
    tid: int
    values: tuple[int, ...]
    stack: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """``rows`` are (key, a number for each column). ``restored``: as that of a run. ``left_out``: records beyond those
    that are kept. ``partial``: some of what happened is not in it, which the notes tell."""

    rows: tuple[tuple[str, tuple[int, ...]], ...]
    totals: dict[str, int]
    records: tuple[QuestionRecord, ...]
    left_out: int
    notes: tuple[str, ...]
    restored: bool | None
    partial: bool
    status: int
    stacks: tuple[StackRow, ...] = ()
