# SPDX-License-Identifier: LGPL-2.1-or-later
"""Questions to a process, each a D program, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from gilk.engines.dtrace.asked import Asked
from gilk.engines.dtrace.iterated import DtraceSession
from gilk.engines.dtrace.outlet import Aside
from gilk.engines.questions import locks, mallocs, offcpu, slow, syscalls
from gilk.engines.questions.asking import Asking
from gilk.render.d.printf import formatted
from gilk.targets.switches import Account
from gilk.trace.d.question import Answer, Question, QuestionColumn, QuestionRecord, QuestionUnit

__all__ = [
    "Account", "Answer", "DtraceSession", "QuestionUnit", "Question", "QuestionColumn", "QuestionRecord", "answered",
    "locks", "mallocs", "offcpu", "session_of", "slow", "syscalls",
]  # fmt: skip


def session_of(
    question: Question, pid: int | None, command: Sequence[str], until: Callable[[], bool],
    starting: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> DtraceSession:  # fmt: skip
    """The session of D that asks the question; enter it, and pass it to ``answered``. ``until``: returns whether to
    stop. ``starting`` makes the context in which the session inserts its probes."""
    options = (("quiet", None), ("dynvarsize", "16m"), ("bufresize", "auto"))
    asked = Asked((("n", question.program),), (), options, pid, tuple(command))
    return DtraceSession(asked, Aside(), formatted, until, starting)


def answered(
    question: Question,
    session: DtraceSession,
    tell: Callable[[QuestionRecord], None] = lambda _record: None,
    began: Callable[[int], None] = lambda _pid: None,
) -> Answer:
    """Ask the question until the program ends, or the session's ``until`` returns True; returns the answer.

    ``tell`` is called with each record as it comes, ``began`` with the pid when all probes are in. Raises GilkError.
    """
    return Asking(question, tell, began).take(session)
