# SPDX-License-Identifier: LGPL-2.1-or-later
"""How the keeper reaches a process that it holds. Linux is the way that there is (linux.py).

To add another: write a class with these members. Whatever works on one of them works on all; what is peculiar to
Linux (ptrace, /proc, system calls of the target's own) belongs in linux.py and in the modules that it composes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from gilk.target.bounds import Bounds
from gilk.target.copies import Copy
from gilk.target.frames import SignalFrame
from gilk.target.held import ArenaMap, Held
from gilk.target.maps import Mapping
from gilk.target.memory import Memory
from gilk.target.places import Places
from gilk.target.running import Sample
from gilk.target.semaphores import Raised, Semaphore
from gilk.target.world import Thread
from gilk.target.writer import Change


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



class Mappings(Protocol):
    """Memory of ours in the process. Each raises TargetError `refused-by-kernel`, `no-such-process`."""

    def set_up(self, name: str, code_size: int, data_size: int) -> tuple[int, int]: ...
    def share_memory(self, size: int) -> tuple[int, int]: ...
    def unshare_memory(self, address: int, size: int) -> None: ...
    def map_arena(self, arena: ArenaMap) -> None: ...
    def map_side(self, blocks: int) -> int: ...
    def map_pages(self, pages: dict[int, int]) -> list[int]: ...
    def handlers(self, signals: list[int]) -> list[tuple[int, int]]: ...
    def copy(self, change: Change, maps: tuple[Mapping, ...]) -> list[Copy]: ...
    def exchange(self, copies: Sequence[Copy]) -> list[Copy]: ...
    def adopt(self) -> None:
        """The memory of ours that is held came with a fork."""
        ...

    def put_back(self, exchanged: Sequence[Copy]) -> None: ...
    def take_out(self) -> None: ...


class Raising(Protocol):
    """Counters in the process by which it knows that somebody listens (semaphores.py)."""

    def raise_(self, counters: Sequence[Semaphore]) -> list[Raised]: ...
    def lower(self, raised: Sequence[Raised]) -> None: ...
    def lower_all(self) -> None: ...
    def lower_abandoned(self) -> None: ...


class Traced(Protocol):
    """One process, as its keeper sees it."""

    @property
    def pid(self) -> int: ...
    @property
    def memory(self) -> Memory: ...
    @property
    def threads(self) -> StoppedThreads: ...

    def mappings(self, held: Callable[[], Held]) -> Mappings: ...
    def semaphores(self, held: Callable[[], Held]) -> Raising: ...

    def maps(self) -> tuple[Mapping, ...]:
        """All that is mapped, by address. Raises TargetError `no-such-process`, `no-permission`."""
        ...

    def bounds(self) -> AbstractContextManager[Bounds]:
        """From where to where something is mapped, for addresses one by one. Raises as maps()."""
        ...

    def parked(self, restorers: frozenset[int], seen: Collection[int]) -> Iterator[SignalFrame]:
        """Signal frames on stacks on which no thread is."""
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
