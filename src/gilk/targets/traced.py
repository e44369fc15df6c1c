# SPDX-License-Identifier: LGPL-2.1-or-later
"""How the keeper reaches a process that it holds. Linux is the way that there is (linux.py).

To add another: write a class with these members. Code that works on one of them works on all; code that is peculiar to
Linux (ptrace, /proc) belongs in linux.py and in the modules that it composes. The mappings are decided once
(mapping.py, semaphores.py), over the target's own system calls (system_calls.py), whoever makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from gilk.targets.bounds import Bounds
from gilk.targets.frames import SignalFrame
from gilk.targets.held import Held
from gilk.targets.maps import Mapping
from gilk.targets.memory import Memory
from gilk.targets.places import Places
from gilk.targets.running import Sample
from gilk.targets.shared_memory import Taking
from gilk.targets.shelter import Shelter
from gilk.targets.system_calls import SystemCalls
from gilk.targets.thread import Thread


class StoppedThreads(Protocol):
    """The threads of the process, by their numbers, while they stand still."""

    @property
    def pid(self) -> int: ...

    def stopped(self) -> AbstractContextManager[dict[int, Thread]]:
        """Raises TargetError `no-such-process`, `no-permission`, `busy`, `shared-memory`."""
        ...

    def run_on(self, thread: Thread, seconds: float) -> Thread:
        """Let one go on for a moment: as it is by then. Raises ProcessLookupError, TargetError `busy`."""
        ...

    def catch_up(self) -> bool:
        """Stop the threads that came into being meanwhile; whether there were any."""
        ...

    def flush(self, thread: Thread) -> None:
        """Give it the registers that were changed. Raises ProcessLookupError."""
        ...


class Traced(Protocol):
    """One process, as its keeper sees it."""

    @property
    def pid(self) -> int: ...
    @property
    def memory(self) -> Memory: ...
    @property
    def threads(self) -> StoppedThreads: ...

    # Memory of ours in it (mapping.py).

    def calls(self) -> AbstractContextManager[SystemCalls]:
        """Have a thread make system calls, while all stand still. Raises PermissionError, TargetError `busy`."""
        ...

    @property
    def taking(self) -> Taking:
        """How memory that it has made for us is had here as well."""
        ...

    def shelter(self, place: Shelter | None) -> None:
        """From now on this is where a borrowed thread's own state lies meanwhile."""
        ...

    def check_alone(self, name: str) -> None:
        """Raises TargetError `shared-memory` when a process that would not be stopped has memory of this name too."""
        ...

    def program(self) -> str:
        """The file that it executes, as its mappings name it; '' of one that has ended."""
        ...

    # What it is doing.

    def maps(self) -> tuple[Mapping, ...]:
        """All that is mapped, by address. Raises TargetError `no-such-process`, `no-permission`."""
        ...

    def bounds(self) -> AbstractContextManager[Bounds]:
        """From where to where something is mapped, for addresses one by one. Raises as maps()."""
        ...

    def parked(self, restorers: frozenset[int], seen: Collection[int]) -> Iterator[SignalFrame]:
        """Signal frames on stacks on which no thread is."""
        ...

    def now(self) -> float:
        """Seconds, on a clock that only goes forwards."""
        ...

    def pause(self, seconds: float) -> None:
        """Leave it alone for that long."""
        ...

    def cpu_time(self) -> float:
        """Seconds that it has run for; 0 once it has gone."""
        ...

    def lives(self, pid: int) -> bool:
        """Whether this process, or another of the same system, has not ended."""
        ...

    def sample(self, held: Held, patches: Places, stack: int) -> list[Sample]:
        """The threads that run just now, and ``stack`` bytes of the stack of each."""
        ...

    def look_for_newcomers(self, held: Callable[[], Held]) -> list[str]:
        """Give blocks to threads that have come to share the memory; notes for the user."""
        ...

    def release_late(self) -> bool:
        """Let go of threads that stopped too late, here and in heirs; whether others may still stop."""
        ...

    def still_has(self, address: int) -> bool:
        """It has neither ended nor executed a program since that was mapped."""
        ...

    def heirs(self, name: str) -> list[int]:
        """Other processes that have memory of this name: forked children, and theirs."""
        ...

    def heir(self, pid: int) -> AbstractContextManager[Traced]:
        """One of them. Raises TargetError `no-such-process`, `no-permission`."""
        ...
