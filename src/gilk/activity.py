# SPDX-License-Identifier: LGPL-2.1-or-later
"""The work under way that takes long, and how much of it is done, for commands that show it to a user; and the threads
of this process.

Code that works reports it here, from any thread, and need not know who listens: commands look at it from time to time
(cli/progress.py).
"""

from __future__ import annotations

import threading
from typing import Final

from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Activity:
    """Some work: ``done`` of ``of`` ``things`` are done; ``of`` is 0 if the number of all is not known."""

    what: str
    done: int = 0
    of: int = 0
    things: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.done} of {self.of} {self.things}" if self.of else self.what


#: The name of a thread that holds no lock which a forked child could need.
WATCHER: Final = "gilk-watcher"


def may_fork() -> bool:
    """Whether no thread of this process besides the calling one may hold a lock, which a forked child would inherit."""
    others = set(threading.enumerate()) - {threading.current_thread()}
    return all(thread.name == WATCHER for thread in others)


class _Latest:
    activity = Activity("analysing")


def tell(what: str, done: int = 0, of: int = 0, things: str = "") -> None:
    _Latest.activity = Activity(what, done, of, things)


def latest() -> Activity:
    return _Latest.activity
