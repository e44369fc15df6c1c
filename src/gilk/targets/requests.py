# SPDX-License-Identifier: LGPL-2.1-or-later
"""A client's requests to a keeper, whichever way they take: a socket to its process (process.py), a call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, cast

from gilk.targets.batch import Batch
from gilk.targets.changing import Outcome
from gilk.targets.held import ArenaMap
from gilk.targets.semaphores import Raised


class Requests(ABC):
    """Each raises what the keeper raised. ``received``: the file descriptors that came with the last answer."""

    def __init__(self) -> None:
        self.received: tuple[int, ...] = ()

    @abstractmethod
    def ask(self, name: str, *arguments: Any, fds: tuple[int, ...] = ()) -> Any:
        """The answer."""

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

    def poke(self, address: int, data: bytes) -> None:
        self.ask("poke", address, data)

    def peek(self, address: int, size: int) -> bytes:
        return cast(bytes, self.ask("peek", address, size))

    def handlers(self, signals: list[int]) -> list[tuple[int, int]]:
        return cast("list[tuple[int, int]]", self.ask("handlers", signals))

    def search_stacks(self) -> None:
        self.ask("search_stacks")

    def is_present(self) -> bool:
        return bool(self.ask("present"))

    def lower_semaphores(self, raised: list[Raised]) -> None:
        self.ask("lower_semaphores", raised)

    def unshare_memory(self, address: int, size: int) -> None:
        self.ask("unshare_memory", address, size)

    def map_arena(self, arena: ArenaMap) -> None:
        self.ask("map_arena", arena)

    def map_pages(self, pages: dict[int, int]) -> list[int]:
        return cast("list[int]", self.ask("map_pages", pages))

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
