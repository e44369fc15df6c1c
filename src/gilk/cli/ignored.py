# SPDX-License-Identifier: LGPL-2.1-or-later
"""Has a command hear an interrupt that Python ignores.

Python raises KeyboardInterrupt wherever the first thread is. While an object is destroyed, or a weak reference calls
back, it can only ignore an exception; the command would go on as if nobody had pressed Ctrl-C.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING, Final

from gilk import own_threads

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_PAUSE: Final = 0.01  # seconds until the interrupt comes again, at another place


def hear_ignored_interrupts() -> None:
    """Send this process SIGINT again, from now on, whenever Python has ignored a KeyboardInterrupt."""
    sys.unraisablehook = _again


def _again(ignored: UnraisableHookArgs) -> None:
    first = threading.main_thread().ident
    if not issubclass(ignored.exc_type, KeyboardInterrupt) or first is None:
        sys.__unraisablehook__(ignored)
        return
    later = threading.Timer(_PAUSE, signal.pthread_kill, (first, signal.SIGINT))
    later.name, later.daemon = own_threads.WATCHER, True
    try:
        own_threads.start(later)
    except (MemoryError, RuntimeError):
        signal.pthread_kill(first, signal.SIGINT)
