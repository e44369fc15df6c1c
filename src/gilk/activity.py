# SPDX-License-Identifier: LGPL-2.1-or-later
"""The work under way that takes long, and how much of it is done, for commands that show it to a user.

Code that works reports it here, from any thread, and need not know who listens: commands look at it from time to time
(cli/progress.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

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


T = TypeVar("T")


def _go_on() -> None:
    pass


class _Latest:
    activity = Activity("analysing")
    check: Callable[[], None] = _go_on


def tell(what: str, done: int = 0, of: int = 0, things: str = "") -> None:
    _Latest.activity = Activity(what, done, of, things)


def step_by_step(things: Iterable[T]) -> Iterator[T]:
    """The things, one by one, of work that takes long in all. Each is a place where the work may end by an exception,
    that of ``checked``: nothing may be half done there."""
    for thing in things:
        _Latest.check()
        yield thing


def told(what: str, of: Collection[T], things: str) -> Iterator[T]:
    """Step by step as above, and tell how many of the things are done."""
    for done, thing in enumerate(step_by_step(of)):
        tell(what, done, len(of), things)
        yield thing


@contextmanager
def checked(check: Callable[[], None]) -> Iterator[None]:
    """A context in which ``check`` is called at each step of long work. It raises an exception if nobody waits for the
    work any more."""
    before, _Latest.check = _Latest.check, check
    try:
        yield
    finally:
        _Latest.check = before


def latest() -> Activity:
    return _Latest.activity
