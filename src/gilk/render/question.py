# SPDX-License-Identifier: LGPL-2.1-or-later
"""Answers to questions, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gilk.render.text import cell, nanoseconds, plural, table
from gilk.trace.d.question import Answer, Question, QuestionColumn, QuestionRecord, QuestionUnit

Json = dict[str, Any]


def to_text(question: Question, answer: Answer, limit: int, terminal: bool | None = None) -> str:
    """A row for each key, at most ``limit`` (0: all); then the totals and the notes. Ends with a newline."""
    text = _rows(question, answer, limit, terminal)
    if question.totals:
        totals = (f"{column.name} {_figure(column, answer.totals[column.name])}" for column in question.totals)
        text += ", ".join(totals) + "\n"
    return text + ending(answer.restored, answer.notes)


def ending(restored: bool | None, notes: Sequence[str]) -> str:
    """The notes, and whether the code was restored; '' if there is nothing to report."""
    text = "the code is NOT what it was before\n" if restored is False else ""
    return text + "".join(f"note: {cell(note)}\n" for note in notes)


def _rows(question: Question, answer: Answer, limit: int, terminal: bool | None) -> str:
    if not question.columns:
        return ""
    headers = [*(column.name for column in question.columns), question.key]
    rows = [[*map(_cell, question.columns, numbers), key] for key, numbers in answer.rows[: limit or None]]
    text = table(headers, rows, terminal) if rows else "nothing of that kind has happened\n"
    more = len(answer.rows) - len(rows)
    return text + (f"and {plural(more, 'row')} more\n" if more else "")


def _cell(column: QuestionColumn, number: int) -> int | str:
    return nanoseconds(number) if column.unit is QuestionUnit.NANOSECONDS else number


def _figure(column: QuestionColumn, number: int) -> str:
    unit = " bytes" if column.unit is QuestionUnit.BYTES else ""
    return f"{_cell(column, number)}{unit}"


def record_text(question: Question, record: QuestionRecord) -> str:
    """A line for the record, and one for each frame of its stack; ends with a newline."""
    took, *arguments = record.values
    words = ", ".join(f"{name} {value:#x}" for name, value in zip(question.fields[1:], arguments, strict=True))
    lines = [f"{nanoseconds(took)}  thread {record.tid}  {words}", *(f"    {frame}" for frame in record.stack)]
    return "".join(f"{cell(line)}\n" for line in lines)


def to_json(question: Question, answer: Answer) -> Json:
    """The answer as one object; times are in ns."""
    names = [column.name for column in question.columns]
    found: Json = {"rows": [{"name": key, **dict(zip(names, numbers, strict=True))} for key, numbers in answer.rows]}
    if question.totals:
        found["totals"] = answer.totals
    if question.fields:
        found["records"] = [_record(question, record) for record in answer.records]
        found["left_out"] = answer.left_out
    return found | {"notes": list(answer.notes), "partial": answer.partial, "restored": answer.restored}


def _record(question: Question, record: QuestionRecord) -> Json:
    values = dict(zip(question.fields, record.values, strict=True))
    return {"time": record.time, "tid": record.tid, **values, "stack": list(record.stack)}
