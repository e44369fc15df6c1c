# SPDX-License-Identifier: LGPL-2.1-or-later
"""The surroundings of an instrument: addresses in the target, the memory of a client, and the point where it is put."""

from __future__ import annotations

from dataclasses import field, replace

from gilk.splice.code import Template
from gilk.splice.frame import RED_ZONE
from gilk.values import dataclass

_PARTS = 2048


@dataclass(frozen=True, slots=True)
class SideThunks:
    """The addresses of the thunks that run C on the thread's side stack, and of the claim that needs hardly
    any stack.
    """

    claim: int
    registers: int
    vector: int
    plain: int
    values: int


@dataclass(frozen=True, slots=True)
class Host:
    """Addresses in the target that instruments refer to, for one arena, and the layout of a block of shared memory.

    ``rings[c]`` is (offset, size) in bytes of the ring of record class c in a block. ``assume_live`` are registers and
    flags to save everywhere, whatever analysis says: a handler of faults may look at any register. ``templates`` caches
    the code of inlined instruments, by kind, liveness and depth of the stack. ``red_zone`` is the number of bytes below
    the stack pointer that belong to the program. ``side`` has thunks if C must not run on the program's stack;
    ``side_thunks`` are those that ``aside`` puts there.
    """

    key: int
    claim: int
    counters: int
    rings: tuple[tuple[int, int], ...]
    thunk: int = 0
    thunk_vector: int = 0
    base: int = 0
    assume_live: int = 0
    red_zone: int = RED_ZONE
    side: SideThunks | None = None
    side_thunks: SideThunks | None = None
    templates: dict[tuple[object, ...], Template] = field(default_factory=dict, compare=False, repr=False)

    def aside(self, red_zone: int) -> Host:
        """This host for code whose stack may have room for some words only: C runs on the side stack."""
        side = self.side_thunks
        return replace(self, red_zone=red_zone, side=side, claim=side.claim if side else self.claim)


@dataclass(frozen=True, slots=True)
class ClientPart:
    """The memory of one of several clients (native/abi/gilk_abi.h): its number, and the layout of a block as
    in `Host`.
    """

    number: int
    counters: int
    rings: tuple[tuple[int, int], ...]

    @property
    def at(self) -> int:
        """The offset in a block of the word that tells the distance from it to the client's own block."""
        return _PARTS + 8 * self.number


@dataclass(frozen=True, slots=True)
class Context:
    """The point of an instrument: the registers and flags that are live there, the original address, and the number of
    bytes that the splice has pushed.
    """

    live: int
    address: int
    pushed: int = 0
