# SPDX-License-Identifier: LGPL-2.1-or-later
"""The question of `gilk syscalls`: which system calls a process makes, how often they fail, and how long they take."""

from __future__ import annotations

from gilk.trace.d.question import Question, QuestionColumn, QuestionUnit

_PROGRAM = """
syscall:::entry { @calls[probefunc] = count(); self->began = timestamp; }
syscall:::return /self->began/
{
	@time[probefunc] = sum(timestamp - self->began);
	@longest[probefunc] = max(timestamp - self->began);
	self->began = 0;
}
syscall:::return /errno != 0/ { @errors[probefunc] = count(); }
"""
_COLUMNS = (
    QuestionColumn("calls"), QuestionColumn("errors"), QuestionColumn("time", QuestionUnit.NANOSECONDS),
    QuestionColumn("longest", QuestionUnit.NANOSECONDS),
)  # fmt: skip


def question() -> Question:
    return Question(_PROGRAM, "system call", _COLUMNS, "time")
