# SPDX-License-Identifier: LGPL-2.1-or-later
"""The protocol by which a keeper reaches the process that it holds. linux.py implements it.

To reach processes by other means, write a class with these members. Code that works on one such class works on all;
code that is peculiar to Linux (ptrace, /proc) belongs in linux.py and in the modules that it composes. Mappings are
decided in one place (mapping.py, semaphores.py), over the target's own system calls (system_calls.py), however those
are made.
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
    """The threads of the process, by tid, while they stand still."""

    @property
    def pid(self) -> int: ...

    def stopped(self) -> AbstractContextManager[dict[int, Thread]]:
        """A context in which all threads are stopped; it yields them by tid. Raises TargetError `no-such-process`,
        `no-permission`, `busy`, `shared-memory`."""
        ...

    def run_on(self, thread: Thread, seconds: float) -> Thread:
        """Let one thread go on for ``seconds``; returns its new state. Raises ProcessLookupError, TargetError
        `busy`."""
        ...

    def catch_up(self) -> bool:
        """Stop the threads that have come into being meanwhile; returns whether there were any."""
        ...

    def flush(self, thread: Thread) -> None:
        """Give the thread the registers that were changed. Raises ProcessLookupError."""
        ...


class Traced(Protocol):
    """The process that a keeper holds, as the keeper reaches it."""

    @property
    def pid(self) -> int: ...
    @property
    def memory(self) -> Memory: ...
    @property
    def threads(self) -> StoppedThreads: ...

    # gilk's memory in the process (mapping.py).

    def calls(self) -> AbstractContextManager[SystemCalls]:
        """A context in which a thread can be had make system calls, while all threads stand still. Raises
        PermissionError, TargetError `busy`."""
        ...

    @property
    def taking(self) -> Taking:
        """The means by which gilk maps memory that the target has made, too."""
        ...

    def shelter(self, place: Shelter | None) -> None:
        """Set the place where the state of a borrowed thread is kept from now on; None: on its own stack."""
        ...

    def check_alone(self, name: str) -> None:
        """Raises TargetError `shared-memory` when a process that would not be stopped has memory of this name too."""
        ...

    def program(self) -> str:
        """The file that the process executes, as its mappings name it; '' when it has ended."""
        ...

    # The state of the process.

    def renew(self) -> bool:
        """Have ``memory`` be that of the program that the process executes now, as long as gilk has nothing in it;
        returns whether it was another program's. All threads must stand still. Raises TargetError."""
        ...

    def maps(self) -> tuple[Mapping, ...]:
        """All mappings, by ascending address. Raises TargetError `no-such-process`, `no-permission`."""
        ...

    def bounds(self) -> AbstractContextManager[Bounds]:
        """A context that yields a function from an address to the start and end of the mapping there. Raises as maps()
        does."""
        ...

    def parked(self, restorers: frozenset[int], seen: Collection[int]) -> Iterator[SignalFrame]:
        """The signal frames on stacks on which no thread is, without those whose ``slot`` is in ``seen``."""
        ...

    def now(self) -> float:
        """The time in seconds, on a clock that only goes forwards."""
        ...

    def pause(self, seconds: float) -> None:
        """Leave the process alone for this long."""
        ...

    def cpu_time(self) -> float:
        """The CPU time of the process in seconds; 0 once it has gone."""
        ...

    def lives(self, pid: int) -> bool:
        """Whether process ``pid`` of the same system, this one or another, has not ended."""
        ...

    def sample(self, held: Held, patches: Places, stack: int) -> list[Sample]:
        """Samples of the threads that run just now, with up to ``stack`` bytes of the stack of each."""
        ...

    def look_for_newcomers(self, held: Callable[[], Held]) -> list[str]:
        """Give blocks of their own to threads that have come to share the memory; returns notes for the user."""
        ...

    def release_late(self) -> bool:
        """Let go of threads that stopped too late, here and in heirs; returns whether others may still stop."""
        ...

    def still_has(self, address: int) -> bool:
        """Whether the process has neither ended nor executed another program since ``address`` was mapped."""
        ...

    def heirs(self, name: str) -> list[int]:
        """The pids of other processes that have memory of this name: forked children, and theirs."""
        ...

    def heir(self, pid: int) -> AbstractContextManager[Traced]:
        """A context with one of the heirs. Raises TargetError `no-such-process`, `no-permission`."""
        ...
