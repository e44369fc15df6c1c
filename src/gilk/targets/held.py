# SPDX-License-Identifier: LGPL-2.1-or-later
"""The memory and files that gilk has mapped in a target."""

from __future__ import annotations

from dataclasses import field

from gilk.targets.call_list import CallList
from gilk.targets.copies import Copy
from gilk.targets.haven import SIZE
from gilk.targets.shelter import Shelter
from gilk.values import dataclass

_PAGE = 4096
RECORD_NAME = "gilk-raised-"  # begins the name of a record of semaphores (semaphores.py)


@dataclass(frozen=True)
class ArenaMap:
    """Where an arena's code is mapped; below it the page that holds the key, below that ``held`` bytes of data."""

    base: int
    size: int
    offset: int
    held: int = 0

    @property
    def start(self) -> int:
        return self.base - _PAGE - self.held


@dataclass
class Held:
    """The things that were put into the target, and must be taken out."""

    name: str = ""
    code_fd: int = -1
    data_fd: int = -1
    data: int = 0
    data_size: int = 0
    code: int = 0
    code_size: int = 0
    arenas: list[ArenaMap] = field(default_factory=list)
    side: tuple[int, int] = (0, 0)  # side stacks: address and size in bytes
    advice: tuple[int, int] = (0, 0)  # stacks of advice: the same
    common: list[tuple[int, int]] = field(default_factory=list)  # memory that others have too: address and size
    pages: dict[int, int] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)
    gates: set[int] = field(default_factory=set)  # control pages of clients, in which threads may wait at gates
    calls: CallList | None = None
    shelter: int = 0  # where a borrowed thread's own state lies meanwhile

    @property
    def controls(self) -> tuple[int, ...]:
        """Where the control pages are that have gates."""
        return (self.data, *self.gates) if self.data else ()

    @property
    def haven(self) -> Shelter | None:
        """In memory of the process's own, which no other can write to."""
        if self.calls is None or not self.shelter:
            return None
        return Shelter(self.calls.end, self.shelter, self.shelter + SIZE)

    @property
    def code_name(self) -> str:
        return f"gilk-code-{self.name}" if self.name else ""

    @property
    def memory_name(self) -> str:
        """The name of each further piece of shared memory."""
        return f"gilk-memory-{self.name}"

    @property
    def raised_name(self) -> str:
        """The name of the record of semaphores."""
        return f"{RECORD_NAME}{self.name}" if self.name else ""

    def in_arena(self, address: int) -> bool:
        return any(a.base <= address < a.base + a.size for a in self.arenas)

    def in_page(self, address: int) -> bool:
        """In a page that a pun leads to."""
        return address & -_PAGE in self.pages

    def is_block(self, base: int) -> bool:
        """A GS base that points at a thread's block, not at the control page or somewhere else."""
        return self.data < base < self.data + self.data_size
