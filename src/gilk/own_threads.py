# SPDX-License-Identifier: LGPL-2.1-or-later
"""The threads of this process: whether they allow it to fork, and those that do something from time to time."""

from __future__ import annotations

import contextlib
import ctypes
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

#: The name of a thread that holds no lock which a forked child could need.
WATCHER: Final = "gilk-watcher"
_STACK: Final = 512 << 10  # bytes
_ARENAS: Final = -8  # M_ARENA_MAX (malloc.h)


def may_fork() -> bool:
    """Whether no thread of this process besides the calling one may hold a lock, which a forked child would inherit."""
    others = set(threading.enumerate()) - {threading.current_thread()}
    return all(thread.name == WATCHER for thread in others)


def watcher(watch: Callable[[], None]) -> threading.Thread | None:
    """Start a thread that calls ``watch``, and keeps no process from ending; None if none could be started.

    Where the address space is limited (``ulimit -v``), it takes three megabytes of that instead of the usual seventy,
    most of which would be for its own part of the C library's heap (M_ARENA_MAX in mallopt(3)).
    """
    thread = threading.Thread(target=watch, name=WATCHER, daemon=True)
    with _small_stack():
        try:
            thread.start()
        except RuntimeError:
            return None
    return thread


@contextmanager
def _small_stack() -> Iterator[None]:
    """Threads that are started in this context take little of a limited address space."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        yield
        return
    with contextlib.suppress(AttributeError):  # another C library than glibc
        ctypes.CDLL(None).mallopt(_ARENAS, 1)
    before = threading.stack_size(_STACK)
    try:
        yield
    finally:
        threading.stack_size(before)


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
