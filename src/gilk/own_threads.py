# SPDX-License-Identifier: LGPL-2.1-or-later
"""The threads of this process: beginning them, whether they allow it to fork, and those that act from time to time."""

from __future__ import annotations

import mmap
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

#: The name of a thread that holds no lock which a forked child could need.
WATCHER: Final = "gilk-watcher"
_STACK: Final = 8 << 20  # bytes, if their number is not limited
#: Bytes that a thread takes besides its stack, for a moment: the C library maps twice the 64 MiB of a heap to find an
#: aligned one in them (new_heap in glibc's malloc/arena.c), and Python wants some.
_HEAP: Final = 144 << 20
_SPARE: Final = 1 << 30  # bytes that a thread which gilk can do without leaves for the rest
_RESERVED: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # without any access, so that no memory is promised


def room_for(threads: int) -> int:
    """How many of so many more threads the limit on this process's addresses leaves room for (``ulimit -v``)."""
    if not is_limited():
        return threads
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    each = _HEAP + (_STACK if stack == resource.RLIM_INFINITY else stack)
    return next((number for number in range(threads, 0, -1) if has_room(number * each)), 0)


def is_limited() -> bool:
    """Whether the number of this process's addresses is limited (``ulimit -v``)."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def has_room(size: int) -> bool:
    """Whether there are so many bytes of free addresses in one piece."""
    try:
        mmap.mmap(-1, size, flags=_RESERVED, prot=0).close()
    except (OSError, OverflowError, MemoryError):
        return False
    return True


def start(thread: threading.Thread) -> None:
    """Start a thread. Raises MemoryError if there may be no room for it: one that lacks memory as it begins does not
    tell Thread.start(), which would wait for ever."""
    if not room_for(1):
        raise MemoryError("no addresses are left for a thread")
    thread.start()


def watcher(watch: Callable[[], None]) -> threading.Thread | None:
    """Start a thread that calls ``watch``, and keeps no process from ending; None if a limit on addresses leaves too
    little for what else gilk needs."""
    if is_limited() and not has_room(_SPARE):
        return None
    thread = threading.Thread(target=watch, name=WATCHER, daemon=True)
    try:
        start(thread)
    except (MemoryError, RuntimeError):
        return None
    return thread


def may_fork() -> bool:
    """Whether no thread of this process besides the calling one may hold a lock, which a forked child would inherit."""
    others = set(threading.enumerate()) - {threading.current_thread()}
    return all(thread.name == WATCHER for thread in others)


@contextmanager
def every(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """Call ``act`` every ``seconds`` in a thread until the block ends. Raises MemoryError."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(seconds):
            act()

    thread = threading.Thread(target=beat, daemon=True)
    start(thread)
    try:
        yield
    finally:
        over.set()
        thread.join()
