# SPDX-License-Identifier: LGPL-2.1-or-later
"""The question where the threads of a process wait: the time without a processor that they spend in system calls."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gilk.trace.d.question import Question, QuestionColumn, QuestionUnit, StackRow
from gilk.values import dataclass

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
#: Frames of the C library, the dynamic linker and the kernel's page, whoever has called those.
_BELOW = re.compile(r"(libc|ld-linux|ld-musl|libpthread|linux-vdso|\[vdso\])[-.\w]*`")
_OFFSET = re.compile(r"\+0x[0-9a-f]+$")


def question(threshold: int, depth: int = 20) -> Question:
    """``threshold``: ns. ``depth``: frames of the stacks."""
    program = _PROGRAM.replace("THRESHOLD", str(threshold)).replace("DEPTH", str(depth))
    return Question(program, "system call", COLUMNS, "time", stacks=True)


@dataclass(frozen=True, slots=True)
class Waits:
    """The waits in ``call`` of the function ``caller``, the first outside the C library. Times in ns."""

    caller: str
    call: str
    waits: int
    time: int
    longest: int


def by_caller(stacks: Iterable[StackRow]) -> tuple[Waits, ...]:
    """The stacks by caller and system call, those with the most time first."""
    found: dict[tuple[str, str], tuple[int, int, int]] = {}
    for row in stacks:
        waits, time, longest = row.numbers
        key = caller(row.stack), row.key
        before = found.get(key, (0, 0, 0))
        found[key] = before[0] + waits, before[1] + time, max(before[2], longest)
    made = (Waits(*key, *numbers) for key, numbers in found.items())
    return tuple(sorted(made, key=lambda each: (-each.time, each.caller, each.call)))


def caller(stack: tuple[str, ...]) -> str:
    """The innermost function outside the C library; of a stack that has none, the innermost; '' of no stack."""
    frame = next((line for line in stack if not _BELOW.match(line)), stack[0] if stack else "")
    return _OFFSET.sub("", frame)
