# SPDX-License-Identifier: LGPL-2.1-or-later
"""The threads of this process: whether they allow it to fork, and those that do something from time to time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

#: The name of a thread that holds no lock which a forked child could need.
WATCHER: Final = "gilk-watcher"


def may_fork() -> bool:
    """Whether no thread of this process besides the calling one may hold a lock, which a forked child would inherit."""
    others = set(threading.enumerate()) - {threading.current_thread()}
    return all(thread.name == WATCHER for thread in others)


@contextmanager
def every(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """Call ``act`` every ``seconds`` in a thread until the block ends."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(seconds):
            act()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
