# SPDX-License-Identifier: LGPL-2.1-or-later
"""The memory and files that gilk has in a target."""

from __future__ import annotations

from dataclasses import field

from gilk.targets.call_list import CallList
from gilk.targets.copies import Copy
from gilk.targets.haven import SIZE
from gilk.targets.shelter import Shelter
from gilk.values import dataclass

_PAGE = 4096
RECORD_NAME = "gilk-raised-"  # prefix of the names of records of semaphores
TRAPS_NAME = "gilk-traps-"  # prefix of the names of memory that says: SIGTRAP was not ignored before gilk came


@dataclass(frozen=True)
class ArenaMap:
    """An arena in the target: its code is mapped at ``base``; below that lies the page that holds the key, and below
    that ``held`` bytes of data. ``offset`` is that of its code in the code memory; ``sigreturn`` is that of an
    rt_sigreturn(2) in its code, and ``table`` that of the pointer to the table of places, 0 if there is none."""

    base: int
    size: int
    offset: int
    held: int = 0
    sigreturn: int = 0
    table: int = 0

    @property
    def start(self) -> int:
        return self.base - _PAGE - self.held


@dataclass
class Held:
    """All that was put into the target and must be taken out. An address of 0 means that there is none."""

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
    common: list[tuple[int, int]] = field(default_factory=list)  # memory that other targets have, too: address, size
    pages: dict[int, int] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)
    gates: set[int] = field(default_factory=set)  # addresses of clients' control pages at whose gates threads may wait
    calls: CallList | None = None
    shelter: int = 0  # address of the memory for a borrowed thread's own state (haven.py)

    @property
    def controls(self) -> tuple[int, ...]:
        """The addresses of the control pages that have gates."""
        return (self.data, *self.gates) if self.data else ()

    @property
    def haven(self) -> Shelter | None:
        """A place for a borrowed thread's state in memory of the process's own, which no other process can write to;
        None if there is none yet."""
        if self.calls is None or not self.shelter:
            return None
        return Shelter(self.calls.end, self.shelter, self.shelter + SIZE)

    @property
    def code_name(self) -> str:
        return f"gilk-code-{self.name}" if self.name else ""

    @property
    def memory_name(self) -> str:
        """The name of the memory objects that are shared besides code and data."""
        return f"gilk-memory-{self.name}"

    @property
    def raised_name(self) -> str:
        """The name of the record of semaphores; '' if nothing is set up."""
        return f"{RECORD_NAME}{self.name}" if self.name else ""

    @property
    def traps_name(self) -> str:
        return f"{TRAPS_NAME}{self.name}"

    def in_arena(self, address: int) -> bool:
        return any(a.base <= address < a.base + a.size for a in self.arenas)

    def in_page(self, address: int) -> bool:
        """Whether the address lies in a page that a pun leads to."""
        return address & -_PAGE in self.pages

    def is_block(self, base: int) -> bool:
        """Whether a GS base points at a thread's block, rather than at the control page or somewhere else."""
        return self.data < base < self.data + self.data_size
