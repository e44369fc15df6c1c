# SPDX-License-Identifier: LGPL-2.1-or-later
"""A line on the terminal that says how a run stands; nothing where standard error is no terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gilk.api import runs


_EVERY = 0.25


@contextlib.contextmanager
def progress(wanted: bool) -> Iterator[Callable[[runs.Progress], None]]:
    """A function to call with the state as often as one likes."""
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


@contextlib.contextmanager
def working(what: str, wanted: bool) -> Iterator[None]:
    """Say that something takes a while."""
    if not wanted or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


def _line(state: runs.Progress) -> str:
    drops = f", {state.drops} dropped" if state.drops else ""
    hits = f"{state.what}, " if state.what else f"{state.hits} hits, "
    return f"{state.seconds:6.1f} s  {hits}{state.records} records{drops}  (Ctrl-C ends)"
