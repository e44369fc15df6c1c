# SPDX-License-Identifier: LGPL-2.1-or-later
"""The requests that a client can make to a keeper, by whichever way they travel: over a socket to the keeper's process
(process.py), or as plain calls.

This is the table of them. For each request answers.py or server.py has a method of the same name with as many
arguments. See those, Tracer and Keeper for what each request does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, cast

from gilk.targets.batch import Batch
from gilk.targets.changing import Outcome
from gilk.targets.copies import Copy, Units
from gilk.targets.debug_registers import WatchedPiece
from gilk.targets.held import ArenaMap
from gilk.targets.launch import Command, ProcessEnd
from gilk.targets.remains import Remains
from gilk.targets.running import Sample
from gilk.targets.semaphores import Raised, Semaphore


class Requests(ABC):
    """Each method raises what the keeper raised. ``received``: the file descriptors that came with the last answer."""

    def __init__(self) -> None:
        self.received: tuple[int, ...] = ()

    @abstractmethod
    def ask(self, name: str, *arguments: Any, fds: tuple[int, ...] = ()) -> Any:
        """Make the request ``name``; returns the answer."""

    # The process.

    def attach(self, pid: int) -> None:
        self.ask("attach", pid)

    def launch(self, command: Command) -> int:
        """Launch a program, none of whose code runs yet; returns the number of its process."""
        return cast(int, self.ask("launch", command))

    def run_until_linked(self, notify: int, state: int) -> bool:
        """Run a launched program until the dynamic linker reports a consistent state at ``notify`` and in ``state``
        (launch.py); False if it has ended."""
        return bool(self.ask("run_until_linked", notify, state))

    def run_to(self, address: int, finally_: bool) -> bool:
        """Run a launched program to ``address``; ``finally_``: then stop all of its threads. False if it has ended."""
        return bool(self.ask("run_to", address, finally_))

    def main_of(self, low: int, high: int) -> int:
        """The address of the main() that a program at its entry hands over, if it lies from ``low`` to ``high``; 0 if
        not."""
        return cast(int, self.ask("main_of", low, high))

    def hold(self) -> None:
        """Stop the process until release()."""
        self.ask("hold")

    def release(self) -> None:
        """Let a launched program run, or one that was stopped."""
        self.ask("release")

    def wait(self, block: bool) -> ProcessEnd | None:
        """How a launched program ended; None while it runs."""
        return cast("ProcessEnd | None", self.ask("wait", block))

    def is_present(self) -> bool:
        return bool(self.ask("present"))

    def keep_name(self, fd: int) -> None:
        """Have the keeper hold the socket that has the session's name (meeting.py) to the end."""
        self.ask("keep_name", fds=(fd,))

    def give_up_name(self) -> None:
        self.ask("give_up_name")

    def follow(self, line: int) -> None:
        """Follow the processes that the target begins, and report them on this line (tree_client.py)."""
        self.ask("follow", fds=(line,))

    # Its mappings.

    def set_up(self, name: str, code_size: int, data_size: int) -> tuple[int, int]:
        """The file descriptors of the memory for code and for data."""
        self.ask("set_up", name, code_size, data_size)
        return self.received[0], self.received[1]

    def share_memory(self, size: int) -> tuple[int, int]:
        """The file descriptor of new shared memory, and its address in the target."""
        _, address = self.ask("share_memory", size)
        return self.received[0], address

    def map_common(self, memory: int, size: int) -> int:
        return cast(int, self.ask("map_common", size, fds=(memory,)))

    def data_address(self) -> int:
        return cast(int, self.ask("data_address"))

    def code_address(self) -> int:
        """The address at which all of the code memory is mapped in the target, for reading."""
        return cast(int, self.ask("code_address"))

    def map_side(self, blocks: int) -> int:
        return cast(int, self.ask("map_side", blocks))

    def map_advice(self, blocks: int) -> int:
        return cast(int, self.ask("map_advice", blocks))

    # Its memory and threads.

    def poke(self, address: int, data: bytes) -> None:
        self.ask("poke", address, data)

    def peek(self, address: int, size: int) -> bytes:
        return cast(bytes, self.ask("peek", address, size))

    def handlers(self, signals: list[int]) -> list[tuple[int, int]]:
        return cast("list[tuple[int, int]]", self.ask("handlers", signals))

    def search_stacks(self) -> None:
        self.ask("search_stacks")

    def sample(self, stack: int) -> list[Sample]:
        """Samples of the threads that run just now, with up to ``stack`` bytes of the stack of each."""
        return cast("list[Sample]", self.ask("sample", stack))

    def standing(self, stack: int) -> list[Sample]:
        """Samples of all threads, which are stopped for as long as that takes."""
        return cast("list[Sample]", self.ask("standing", stack))

    def under_way(self, word: int) -> list[str]:
        """The names of the functions that have calls with advice under way. If there are none, the word at address
        ``word`` of the target becomes 0 before a thread goes on; ``word`` 0: no such word."""
        return cast("list[str]", self.ask("under_way", word))

    def put_back(self, copies: tuple[Copy, ...]) -> None:
        """Exchange these copies for the original code."""
        self.ask("put_back", copies)

    def repair(self, pieces: list[tuple[int, bytes]], remains: Remains) -> bool:
        """Write ``pieces``, (address, bytes), over code, with no thread left at the jumps that are overwritten. Returns
        whether no thread and no waiting handler is in the code that ``remains`` of the session, after a second at
        most."""
        return cast(bool, self.ask("repair", pieces, remains))

    def raise_semaphores(self, counters: list[Semaphore]) -> list[Raised]:
        return cast("list[Raised]", self.ask("raise_semaphores", counters))

    def lower_abandoned(self) -> None:
        """Lower the semaphores that sessions without a keeper have raised."""
        self.ask("lower_abandoned")

    def lower_semaphores(self, raised: list[Raised]) -> None:
        self.ask("lower_semaphores", raised)

    def unshare_memory(self, address: int, size: int) -> None:
        self.ask("unshare_memory", address, size)

    def map_arena(self, arena: ArenaMap) -> None:
        self.ask("map_arena", arena)

    def map_pages(self, pages: dict[int, int]) -> list[int]:
        return cast("list[int]", self.ask("map_pages", pages))

    def trap(self, pieces: list[WatchedPiece], enter: int) -> None:
        """Have debug registers watch pieces of memory, until close(), and lead threads that access them to ``enter``,
        where gilk_trapped is (native/host/access.S)."""
        self.ask("trap", pieces, enter)

    # Patches.

    def copy_code(self, units: Units) -> tuple[Copy, ...]:
        """Prepare copies of code in which these units are in force; returns the copies."""
        return tuple(self.ask("copy_code", units))

    def stage(self, number: int, batch: Batch) -> None:
        self.ask("stage", number, batch)

    def give_up(self, units: dict[int, set[int]]) -> None:
        self.ask("give_up", units)

    def have_gates(self, control: int) -> None:
        self.ask("have_gates", control)

    def have_no_gates(self, control: int) -> None:
        self.ask("have_no_gates", control)

    def forget(self, number: int) -> None:
        self.ask("forget", number)

    def change(self, remove: dict[int, set[int]], add: dict[int, set[int]]) -> Outcome:
        return cast(Outcome, self.ask("change", remove, add))

    def expect(self, add: dict[int, set[int]], busy: dict[int, set[int]]) -> None:
        self.ask("expect", add, busy)

    def begin(self) -> Outcome:
        """Make the change that was expected."""
        return cast(Outcome, self.ask("begin"))

    def stay(self, word: int) -> None:
        self.ask("stay", word)

    def close(self) -> bool:
        return bool(self.ask("close"))

    def notes(self) -> list[str]:
        """The notes for the user about the work since this was last called."""
        return cast("list[str]", self.ask("notes"))
