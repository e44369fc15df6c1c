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
    """The question to one process, with nothing put in yet. Raises GilkError; then everything is let go.

    ``every`` and ``lasting`` in ns; None is for ever. ``tell`` is told of each period as it ends; ``Top.whole`` has
    all of it, after ``finish``. ``scope`` and ``skip`` are globs (spec/functions.py).
    """
    chosen = TraceScope.parse(scope, skip)
    end = Exit("exit") if lasting is None else Elapsed(f"for:{lasting / _SECOND:g}s", lasting / _SECOND, True)
    held = hold([] if pid is None else [pid], command)
    return Top(
        held, [], None, tuple(command), start=Now("now"), stop=end, scope=chosen, budget=Budget(rate=CALLS),
        every=every, tell=tell,
    )  # fmt: skip
