# SPDX-License-Identifier: LGPL-2.1-or-later
"""The question of `gilk mallocs`: which code allocates memory, how much, and how much of it is freed again."""

from __future__ import annotations

from gilk.trace.d.question import Question, QuestionColumn, QuestionUnit

# realloc(NULL, n) calls malloc, and is counted there. An allocation within another is a part of it.
_PROGRAM = """
uint64_t kept[uint64_t];

pid$target:LIBRARY:malloc:entry /!self->who/ { self->size = arg0; self->who = ucaller; }
pid$target:LIBRARY:calloc:entry /!self->who/ { self->size = arg0 * arg1; self->who = ucaller; }
pid$target:LIBRARY:realloc:entry /arg0 && !self->who/ { self->size = arg1; self->old = arg0; self->who = ucaller; }

pid$target:LIBRARY:malloc:return, pid$target:LIBRARY:calloc:return, pid$target:LIBRARY:realloc:return
/self->who && arg1/
{
	@calls[usym(self->who)] = count();
	@bytes[usym(self->who)] = sum(self->size);
	@largest[usym(self->who)] = max(self->size);
	@allocations = count();
	@allocated = sum(self->size);
}
pid$target:LIBRARY:realloc:return
/self->who && arg1 && kept[self->old]/
{
	@frees = count();
	@freed = sum(kept[self->old]);
	kept[self->old] = 0;
}
pid$target:LIBRARY:malloc:return, pid$target:LIBRARY:calloc:return, pid$target:LIBRARY:realloc:return
/self->who && arg1/
{
	kept[arg1] = self->size;
}
pid$target:LIBRARY:malloc:return, pid$target:LIBRARY:calloc:return, pid$target:LIBRARY:realloc:return
{
	self->who = 0; self->old = 0; self->size = 0;
}

pid$target:LIBRARY:free:entry /kept[arg0]/ { @frees = count(); @freed = sum(kept[arg0]); kept[arg0] = 0; }
"""
_COLUMNS = (
    QuestionColumn("calls"), QuestionColumn("bytes", QuestionUnit.BYTES), QuestionColumn("largest", QuestionUnit.BYTES),
)  # fmt: skip
_TOTALS = (
    QuestionColumn("allocations"), QuestionColumn("allocated", QuestionUnit.BYTES), QuestionColumn("frees"),
    QuestionColumn("freed", QuestionUnit.BYTES),
)  # fmt: skip


def question(library: str = "libc") -> Question:
    """The question. ``library``: the image that has malloc."""
    return Question(_PROGRAM.replace("LIBRARY", library), "called by", _COLUMNS, "bytes", _TOTALS)
