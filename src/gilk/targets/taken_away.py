# SPDX-License-Identifier: LGPL-2.1-or-later
"""Notices that a program has unmapped gilk's memory, or made it inaccessible.

Nothing can keep the program from it, nor from the end that it comes to at its next hit: the kernel sends SIGSEGV to the
thread, and no tracer is there to put the code right. But no more code is led to memory that has gone, and the report
says what has happened.
"""

from __future__ import annotations

from collections.abc import Iterator

from gilk.errors import TargetError
from gilk.targets.held import Held
from gilk.targets.memory import Memory
from gilk.targets.traced import Traced


def check(process: Traced, held: Held) -> None:
    """Check that the program has not unmapped memory of gilk's. Raises TargetError `memory-taken-away`."""
    if what := _unmapped(held, process.memory):
        raise TargetError(
            "memory-taken-away",
            f"process {process.pid} has unmapped {what} of gilk's",
            "its code is put right when the session ends; a program that does so cannot be instrumented",
        )


def notes(process: Traced, held: Held) -> Iterator[str]:
    """A note for the user, if the program has taken memory of gilk's away; none where that cannot be seen."""
    missing = "what it did from then on is not recorded"
    if what := _unmapped(held, process.memory):
        yield f"process {process.pid} has unmapped {what} of gilk's: {missing}"
    elif _is_inaccessible(process):
        yield f"process {process.pid} has made gilk's memory inaccessible: {missing}"


def _is_inaccessible(process: Traced) -> bool:
    try:
        return any(each.ours and each.permissions.startswith("-") for each in process.maps())
    except TargetError:  # the process has ended, or may not be looked into any more
        return False


def _unmapped(held: Held, memory: Memory) -> str:
    """The memory that is not mapped any more; '' if all is."""
    places = {"data": [held.data], "code": [held.code, *(arena.base for arena in held.arenas)]}
    return " and ".join(name for name, at in places.items() if not all(_is_there(memory, each) for each in at if each))


def _is_there(memory: Memory, address: int) -> bool:
    try:
        memory.read(address, 1)
    except OSError:
        return False
    return True
