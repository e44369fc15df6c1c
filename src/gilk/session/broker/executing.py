# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes that execute another program while gilk looks at the one before, some of them again and again: they are
stopped, and everything begins anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from gilk.errors import GilkError, TargetError

if TYPE_CHECKING:
    from gilk.targets.process import Process

_T = TypeVar("_T")
_TRIES: Final = 20
_PAUSE: Final = 0.01  # seconds, at most, for a process to go on in
_GONE: Final = frozenset(("no-such-process", "image-gone"))
_ABSENT: Final = frozenset(("no-such-image", "no-such-function", "no-such-point", "no-such-probe", "nothing-to-follow"))


def in_one_program(processes: Sequence[Process], work: Callable[[], _T], undo: Callable[[], None]) -> _T:
    """The result of ``work``, which looks at the programs of processes and puts something into them.

    If it fails because a process has executed another program meanwhile, ``undo`` is called, and it is done again while
    the process stands still, which it does until it is released. A process may be stopped before it has mapped its
    libraries; then it goes on for a moment, for a limited number of times. Raises GilkError.
    """
    for left in reversed(range(_TRIES)):
        try:
            return work()
        except GilkError as error:
            moved = [process for process in processes if _is_to_be_held(process, error)] if left else []
            if not moved:
                raise
        undo()
        for process in moved:
            _hold(process)
    raise AssertionError("the last attempt returns or raises")


def _is_to_be_held(process: Process, error: GilkError) -> bool:
    """Whether ``error`` may be because the process executes another program than before, or is only just beginning
    to."""
    if process.launched or not process.alive:
        return False
    return process.has_executed() or error.slug in _GONE or (process.stands and error.slug in _ABSENT)


def _hold(process: Process) -> None:
    """Stop the process, after it has gone on for a moment if it stood already. Raises TargetError."""
    import random  # imported here, like the next: they are rarely needed

    from gilk.session.broker.client import RemoteTracer, approach_again

    for left in reversed(range(_TRIES)):
        try:
            if process.stands:
                process.release()
                time.sleep(random.uniform(0.0, _PAUSE))  # not a multiple of the time that one of its programs takes
            if isinstance(process.keeper, RemoteTracer):
                approach_again(process)
            return process.hold()
        except TargetError as error:
            if not process.alive:
                return  # the next attempt says so, or leaves the process out
            if error.slug not in ("keeper-gone", "no-such-process") or not left:
                raise
