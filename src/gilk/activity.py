# SPDX-License-Identifier: LGPL-2.1-or-later
"""The work under way that takes long, and how much of it is done, for commands that show it to a user.

Code that works reports it here, from any thread, and need not know who listens: commands look at it from time to time
(cli/progress.py).
"""

from __future__ import annotations

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


class _Latest:
    activity = Activity("analysing")


def tell(what: str, done: int = 0, of: int = 0, things: str = "") -> None:
    _Latest.activity = Activity(what, done, of, things)


def latest() -> Activity:
    return _Latest.activity
