# SPDX-License-Identifier: LGPL-2.1-or-later
"""The threads of this process: whether they allow it to fork."""

from __future__ import annotations

import threading
from typing import Final

#: The name of a thread that holds no lock which a forked child could need.
WATCHER: Final = "gilk-watcher"


def may_fork() -> bool:
    """Whether no thread of this process besides the calling one may hold a lock, which a forked child would inherit."""
    others = set(threading.enumerate()) - {threading.current_thread()}
    return all(thread.name == WATCHER for thread in others)
