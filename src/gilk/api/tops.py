# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions of a process by time, period by period."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gilk.api.processes import hold
from gilk.engines.follow.adapt import Budget
from gilk.engines.follow.scope import TraceScope
from gilk.engines.questions.top import CALLS, Top
from gilk.runs.outcome import Result
from gilk.spec.event import Elapsed, Exit, Now
from gilk.trace.folding import TopPeriod

__all__ = ["TopPeriod", "Result", "Top", "prepare_top"]

_SECOND = 1_000_000_000


def prepare_top(
    pid: int | None,
    command: Sequence[str] = (),
    every: int = _SECOND,
    tell: Callable[[TopPeriod], None] = lambda _period: None,
    scope: Sequence[str] = (),
    skip: Sequence[str] = (),
    lasting: int | None = None,
) -> Top:
    """A process to be asked for its functions by time; no probe is in yet.

    ``every``: ns of a period. ``lasting``: ns of the whole, None until the program ends. ``tell`` is called with each
    period as it ends; after ``finish``, ``Top.whole`` has the figures of all periods. ``scope`` and ``skip`` are globs
    (spec/functions.py). Raises GilkError; then the process is let go.
    """
    chosen = TraceScope.parse(scope, skip)
    end = Exit("exit") if lasting is None else Elapsed(f"for:{lasting / _SECOND:g}s", lasting / _SECOND, True)
    held = hold([] if pid is None else [pid], command)
    return Top(
        held, [], None, tuple(command), start=Now("now"), stop=end, scope=chosen, budget=Budget(rate=CALLS),
        every=every, tell=tell,
    )  # fmt: skip
