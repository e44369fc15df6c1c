# SPDX-License-Identifier: LGPL-2.1-or-later
"""The question where the threads of a process wait: the time without a processor that they spend in system calls."""

from __future__ import annotations

from gilk.trace.d.question import Question, QuestionColumn, QuestionUnit

# A thread's time on a processor stands still while it waits: what is left of the clock's is the wait. Signed, for the
# two are not read at the same moment.
_PROGRAM = """
syscall:::entry { self->under_way = 1; self->began = timestamp; self->ran = vtimestamp; }
syscall:::return
/self->under_way && (int64_t)((timestamp - self->began) - (vtimestamp - self->ran)) >= THRESHOLD/
{
	self->waited = (timestamp - self->began) - (vtimestamp - self->ran);
	@waits[probefunc, ustack(DEPTH)] = count();
	@time[probefunc, ustack(DEPTH)] = sum(self->waited);
	@longest[probefunc, ustack(DEPTH)] = max(self->waited);
	self->waited = 0;
}
syscall:::return { self->under_way = 0; self->began = 0; self->ran = 0; }
"""
COLUMNS = (
    QuestionColumn("waits"), QuestionColumn("time", QuestionUnit.NANOSECONDS),
    QuestionColumn("longest", QuestionUnit.NANOSECONDS),
)  # fmt: skip


def question(threshold: int, depth: int = 20) -> Question:
    """``threshold``: ns. ``depth``: frames of the stacks."""
    program = _PROGRAM.replace("THRESHOLD", str(threshold)).replace("DEPTH", str(depth))
    return Question(program, "system call", COLUMNS, "time", stacks=True)
