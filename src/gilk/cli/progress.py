# SPDX-License-Identifier: LGPL-2.1-or-later
"""Progress on standard error: a line on the terminal about a run, and lines about work that takes long, also in a
pipe."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gilk import activity, own_threads
from gilk.activity import Activity

if TYPE_CHECKING:
    from gilk.api import runs


_EVERY = 0.25
_LINES_EVERY = 5.0
SOON = 1.0  # seconds after which work that mostly takes less is announced


@contextlib.contextmanager
def progress(wanted: bool) -> Iterator[Callable[[runs.Progress], None]]:
    """Yield a function that shows the state of the run; it may be called as often as one likes."""
    if not wanted or not sys.stderr.isatty():
        yield lambda _state: None
        return
    from rich.console import Console  # here: it takes longer to import than some commands to run
    from rich.live import Live
    from rich.text import Text

    shown = 0.0
    with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:

        def show(state: runs.Progress) -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown >= _EVERY:
                shown = now
                live.update(Text(_line(state)), refresh=True)

        yield show


def interval() -> float:
    """The seconds between two lines about long work where standard error is no terminal; 0 means no lines."""
    try:
        return max(0.0, float(os.environ.get("GILK_PROGRESS", _LINES_EVERY)))
    except ValueError:
        return _LINES_EVERY


class Beat:
    """Decide when the next line about long work is due. All times are seconds of one clock, which the caller reads."""

    def __init__(self, began: float, every: float, first: float | None = None) -> None:
        """``first``: how long after ``began`` the first line is due; ``every`` if it is None."""
        self._began, self._every = began, every
        self._next = began + (every if first is None else min(first, every))

    def line(self, now: float, activity: Activity) -> str | None:
        """The line that is due at ``now``, such as ``analysing 12 of 31 images, 9 s``; None if no line is due yet."""
        if not self._every or now < self._next:
            return None
        self._next = now + self._every
        return self.text(now, activity)

    def text(self, now: float, activity: Activity) -> str:
        return f"{activity}, {int(now - self._began)} s"


@contextlib.contextmanager
def working(what: str, wanted: bool) -> Iterator[None]:
    """Say how far work is that takes long: on a terminal all the time, else a line every few seconds."""
    if not wanted or not sys.stderr.isatty():
        with in_lines(what, wanted):
            yield
        return
    activity.tell(what)
    from rich.console import Console

    beat, status = Beat(time.monotonic(), interval()), Console(stderr=True).status(what)
    with status, own_threads.every(_EVERY, lambda: status.update(beat.text(time.monotonic(), activity.latest()))):
        yield


@contextlib.contextmanager
def in_lines(what: str, wanted: bool, first: float | None = None) -> Iterator[None]:
    """Show progress as a line every few seconds, on a terminal too: for work that mostly ends before the first.
    ``first``: after how many seconds the first line comes, if it is not as the others."""
    activity.tell(what)
    beat = Beat(time.monotonic(), interval(), first)
    if not wanted or not interval():
        yield
    else:
        with own_threads.every(min(_EVERY, interval()), lambda: say(beat.line(time.monotonic(), activity.latest()))):
            yield


def say(line: str | None) -> None:
    """Write a line directly, without Python's lock on standard error: another thread may fork while the lock is
    held."""
    if line is not None:
        with contextlib.suppress(OSError):
            os.write(sys.stderr.fileno(), f"gilk: {line}\n".encode())


def _line(state: runs.Progress) -> str:
    drops = f", {state.drops} dropped" if state.drops else ""
    hits = f"{state.what}, " if state.what else f"{state.hits} hits, "
    return f"{state.seconds:6.1f} s  {hits}{state.records} records{drops}  (Ctrl-C ends)"
