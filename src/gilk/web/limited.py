# SPDX-License-Identifier: LGPL-2.1-or-later
"""Limits the time of a computation in this process, such as a search for an expression that somebody has typed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from gilk.errors import GilkError


@contextmanager
def limited(seconds: float, error: GilkError) -> Iterator[None]:
    """A context that raises ``error`` after that time. Use it in the main thread, for what makes no system calls.

    Python's re looks for signals while it searches (Modules/_sre/sre_lib.h, MAYBE_CHECK_SIGNALS).
    """

    def over(_number: int, _frame: FrameType | None) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
