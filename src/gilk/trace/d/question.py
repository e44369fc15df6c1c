# SPDX-License-Identifier: LGPL-2.1-or-later
"""A question to a process: a D program, and the names and units of the columns of its answer."""

from __future__ import annotations

from enum import StrEnum

from gilk.values import dataclass


class QuestionUnit(StrEnum):
    """The unit of a column."""

    COUNT = "count"
    NANOSECONDS = "ns"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class QuestionColumn:
    """A column of an answer: the aggregation ``@name`` of the program, which has the same name in JSON."""

    name: str
    unit: QuestionUnit = QuestionUnit.COUNT


@dataclass(frozen=True)
class Question:
    """A question, which is a D program. Its aggregations ``columns`` share one key, the name of which is ``key``; rows
    with the most of ``order`` come first. ``totals`` are aggregations without a key. ``fields`` are the values that a
    clause records for Answer.records. With ``stacks`` the columns have a stack as second key, and the answer has
    Answer.stacks in place of rows.
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
    """A key, a stack with the innermost function first, and a number for each column."""

    key: str
    stack: tuple[str, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """One recorded event: ``values`` by the question's fields, at ``time`` ns of D's clock, in thread ``tid``.
    ``stack`` has the innermost function first.
    """

    time: int
    tid: int
    values: tuple[int, ...]
    stack: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """The answer to a question. ``rows`` are (key, a number for each column). ``restored``: whether the code of the
    process is what it was. ``left_out``: the number of records beyond those that are kept. ``partial``: some events are
    not in it, as the notes tell.
    """

    rows: tuple[tuple[str, tuple[int, ...]], ...]
    totals: dict[str, int]
    records: tuple[QuestionRecord, ...]
    left_out: int
    notes: tuple[str, ...]
    restored: bool | None
    partial: bool
    status: int
    stacks: tuple[StackRow, ...] = ()
