# SPDX-License-Identifier: LGPL-2.1-or-later
"""The question of `gilk offcpu`: where the threads of a process wait, by the time in system calls during which they
have no processor."""

from __future__ import annotations

from gilk.trace.d.question import Question, QuestionColumn, QuestionUnit

# A thread's time on a processor (vtimestamp) stands still while it waits: the rest of the elapsed time is the wait. It
# is signed, since the two clocks are not read at the same moment.
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
    """The question. ``threshold``: ns of the shortest wait. ``depth``: frames of the stacks."""
    program = _PROGRAM.replace("THRESHOLD", str(threshold)).replace("DEPTH", str(depth))
    return Question(program, "system call", COLUMNS, "time", stacks=True)
