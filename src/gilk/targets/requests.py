# SPDX-License-Identifier: LGPL-2.1-or-later
"""A client's requests to a keeper, whichever way they take: a socket to its process (process.py), a call.

This is the table of them. A method of answers.py or server.py answers each: it has the request's name, and as many
arguments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, cast

from gilk.targets.batch import Batch
from gilk.targets.changing import Outcome
from gilk.targets.copies import Copy, Units
from gilk.targets.held import ArenaMap
from gilk.targets.launch import Command, ProcessEnd
from gilk.targets.running import Sample
from gilk.targets.semaphores import Raised, Semaphore


class Requests(ABC):
    """Each raises what the keeper raised. ``received``: the file descriptors that came with the last answer."""

    def __init__(self) -> None:
        self.received: tuple[int, ...] = ()

    @abstractmethod
    def ask(self, name: str, *arguments: Any, fds: tuple[int, ...] = ()) -> Any:
        """The answer."""

    # The process.

    def attach(self, pid: int) -> None:
        self.ask("attach", pid)

    def launch(self, command: Command) -> int:
        """The number of the process, of which nothing has run yet."""
        return cast(int, self.ask("launch", command))

    def run_until_linked(self, notify: int, state: int) -> bool:
        """Run a launched program until the linker says so, at ``notify`` and in ``state``; False where it has ended."""
        return bool(self.ask("run_until_linked", notify, state))

    def run_to(self, address: int, finally_: bool) -> bool:
        """Run a launched program to there; ``finally_``: and stop all of it. False where it has ended."""
        return bool(self.ask("run_to", address, finally_))

    def main_of(self, low: int, high: int) -> int:
        """The main() that a program at its entry hands over, if it lies from ``low`` to ``high``; 0 if not."""
        return cast(int, self.ask("main_of", low, high))

    def release(self) -> None:
        """Let a launched program run."""
        self.ask("release")

    def wait(self, block: bool) -> ProcessEnd | None:
        """How a launched program ended; None while it runs."""
        return cast("ProcessEnd | None", self.ask("wait", block))

    def is_present(self) -> bool:
        return bool(self.ask("present"))

    def keep_name(self, fd: int) -> None:
        """Keep the socket that has the name of the session (meeting.py) to the end."""
        self.ask("keep_name", fds=(fd,))

    def give_up_name(self) -> None:
        self.ask("give_up_name")

    def follow(self, line: int) -> None:
        """Follow what the process begins, and tell of it on this line (tree_client.py)."""
        self.ask("follow", fds=(line,))

    # Its mappings.

    def set_up(self, name: str, code_size: int, data_size: int) -> tuple[int, int]:
        """File descriptors of code and data."""
        self.ask("set_up", name, code_size, data_size)
        return self.received[0], self.received[1]

    def share_memory(self, size: int) -> tuple[int, int]:
        """A file descriptor, and the address in the target."""
        _, address = self.ask("share_memory", size)
        return self.received[0], address

    def map_common(self, memory: int, size: int) -> int:
        return cast(int, self.ask("map_common", size, fds=(memory,)))

    def data_address(self) -> int:
        return cast(int, self.ask("data_address"))

    def code_address(self) -> int:
        """Where all of the code object is mapped in the target, to be read."""
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
        """Where the threads are that run just now, and ``stack`` bytes of the stack of each."""
        return cast("list[Sample]", self.ask("sample", stack))

    def under_way(self, word: int) -> list[str]:
        """The functions of which calls with advice are under way. Where there are none, the word at this address of the
        target becomes 0 before a thread goes on; 0: no word."""
        return cast("list[str]", self.ask("under_way", word))

    def put_back(self, copies: tuple[Copy, ...]) -> None:
        """Exchange these copies for the code that they are of."""
        self.ask("put_back", copies)

    def repair(self, pieces: list[tuple[int, bytes]]) -> None:
        """Write code at addresses, with no thread in the patches that lead out of it."""
        self.ask("repair", pieces)

    def raise_semaphores(self, counters: list[Semaphore]) -> list[Raised]:
        return cast("list[Raised]", self.ask("raise_semaphores", counters))

    def lower_abandoned(self) -> None:
        """Lower semaphores that sessions have raised whose keepers are gone."""
        self.ask("lower_abandoned")

    def lower_semaphores(self, raised: list[Raised]) -> None:
        self.ask("lower_semaphores", raised)

    def unshare_memory(self, address: int, size: int) -> None:
        self.ask("unshare_memory", address, size)

    def map_arena(self, arena: ArenaMap) -> None:
        self.ask("map_arena", arena)

    def map_pages(self, pages: dict[int, int]) -> list[int]:
        return cast("list[int]", self.ask("map_pages", pages))

    # Patches.

    def copy_code(self, units: Units) -> tuple[Copy, ...]:
        """Copies of code, made ready, in which these units are in force."""
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
        """Notes for the user about the work since they were last asked for."""
        return cast("list[str]", self.ask("notes"))
