# SPDX-License-Identifier: LGPL-2.1-or-later
"""The question of `gilk locks`: which code takes mutexes, or which are taken, how often, and how long that takes."""

from __future__ import annotations

from gilk.trace.d.question import Question, QuestionColumn, QuestionUnit

_PROGRAM = """
pid$target:LIBRARY:pthread_mutex_lock:entry { self->who = KEY; self->began = timestamp; }
pid$target:LIBRARY:pthread_mutex_lock:return /self->who/
{
	@calls[usym(self->who)] = count();
	@time[usym(self->who)] = sum(timestamp - self->began);
	@longest[usym(self->who)] = max(timestamp - self->began);
	self->who = 0; self->began = 0;
}
"""
_COLUMNS = (
    QuestionColumn("calls"), QuestionColumn("time", QuestionUnit.NANOSECONDS),
    QuestionColumn("longest", QuestionUnit.NANOSECONDS),
)  # fmt: skip


def question(library: str = "libc", by_mutex: bool = False) -> Question:
    """The question. ``library``: the image that has pthread_mutex_lock. ``by_mutex``: have a row for each mutex, by the
    name of the variable that it is or lies in, and not for each caller."""
    program = _PROGRAM.replace("LIBRARY", library).replace("KEY", "arg0" if by_mutex else "ucaller")
    return Question(program, "mutex" if by_mutex else "called by", _COLUMNS, "time")
