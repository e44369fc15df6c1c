# SPDX-License-Identifier: LGPL-2.1-or-later
"""The question of `gilk slow`: which calls of a function take longer than a threshold, with which arguments, and from
where."""

from __future__ import annotations

import re

from gilk.errors import UsageError
from gilk.spec import functions
from gilk.trace.d.question import Question, QuestionColumn, QuestionUnit

# The stack pointer tells calls apart, also if one is left by an exception: at the return it is what it was at the
# entry.
_PROGRAM = """
pid$target:FUNCTION:entry
{
	self->began[uregs[R_SP]] = timestamp;
	self->a[uregs[R_SP]] = arg0;
	self->b[uregs[R_SP]] = arg1;
}
pid$target:FUNCTION:return
/self->began[uregs[R_SP]] && timestamp - self->began[uregs[R_SP]] >= THRESHOLD/
{
	trace(timestamp - self->began[uregs[R_SP]]);
	trace(self->a[uregs[R_SP]]);
	trace(self->b[uregs[R_SP]]);
	ustack(DEPTH);
	@slow = count();
}
pid$target:FUNCTION:return
/self->began[uregs[R_SP]]/
{
	@calls = count();
	@time = sum(timestamp - self->began[uregs[R_SP]]);
	@longest = max(timestamp - self->began[uregs[R_SP]]);
	self->began[uregs[R_SP]] = 0;
	self->a[uregs[R_SP]] = 0;
	self->b[uregs[R_SP]] = 0;
}
"""
_TOTALS = (
    QuestionColumn("calls"), QuestionColumn("slow"), QuestionColumn("time", QuestionUnit.NANOSECONDS),
    QuestionColumn("longest", QuestionUnit.NANOSECONDS),
)  # fmt: skip
_FIELDS = ("took", "arg0", "arg1")
_NO_LETTER = re.compile(r"[^-:\w.?*\[\]!]", re.ASCII)  # a description cannot have these letters; `?` stands for one


def question(function: str, threshold: int, depth: int = 20) -> Question:
    """The question. ``threshold``: ns. ``depth``: frames of the stack. Raises UsageError `bad-point`."""
    found = functions.parse(function)
    if ":" in found.image:
        raise UsageError("bad-point", f"{function!r} is not [IMAGE:]FUNCTION")
    described = _NO_LETTER.sub("?", f"{found.image or 'a.out'}:{found.function}")
    program = _PROGRAM.replace("FUNCTION", described).replace("THRESHOLD", str(threshold)).replace("DEPTH", str(depth))
    return Question(program, totals=_TOTALS, fields=_FIELDS)
