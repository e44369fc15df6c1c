# SPDX-License-Identifier: LGPL-2.1-or-later
"""The work under way that takes long, and how much of it is done, for whoever shows that to a user.

Code that works tells it here, from whichever thread, and need not know who listens: commands look at it from time to
time (cli/progress.py).
"""

from __future__ import annotations

from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Activity:
    """``done`` of ``of`` ``things``; ``of`` is 0 where nobody knows how many there are."""

    what: str
    done: int = 0
    of: int = 0
    things: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.done} of {self.of} {self.things}" if self.of else self.what


class _Latest:
    activity = Activity("analysing")


def tell(what: str, done: int = 0, of: int = 0, things: str = "") -> None:
    _Latest.activity = Activity(what, done, of, things)


def latest() -> Activity:
    return _Latest.activity
