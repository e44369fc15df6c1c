# SPDX-License-Identifier: LGPL-2.1-or-later
"""The surroundings of an instrument: addresses in the target, the memory of a client, and the point it is put at."""

from __future__ import annotations

from dataclasses import field, replace

from gilk.splice.code import Template
from gilk.splice.frame import RED_ZONE
from gilk.values import dataclass

_PARTS = 2048


@dataclass(frozen=True, slots=True)
class SideThunks:
    """Addresses of the ways into C by the thread's side stack, and of the claim that takes hardly any stack."""

    claim: int
    registers: int
    vector: int
    plain: int
    values: int


@dataclass(frozen=True, slots=True)
class Host:
    """Addresses in the target that instruments refer to, for one arena, and the shape of a block.

    ``rings[c]`` is (offset, size) in bytes of the ring of record class c in a block.
    ``assume_live`` is saved everywhere, whatever analysis says: a handler of faults may look at any register.
    ``templates`` keeps what inlined instruments look like here, by kind, liveness and depth of the stack.
    ``red_zone``: so many bytes below the stack pointer are the program's. ``side``: where C does not run on the stack
    of the program. ``side_thunks``: what ``aside`` takes it from.
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
        """For code whose stack may have room for some words only."""
        side = self.side_thunks
        return replace(self, red_zone=red_zone, side=side, claim=side.claim if side else self.claim)


@dataclass(frozen=True, slots=True)
class ClientPart:
    """Memory of one client among several (native/abi/gilk_abi.h): its number, and the shape of a block as in `Host`."""

    number: int
    counters: int
    rings: tuple[tuple[int, int], ...]

    @property
    def at(self) -> int:
        """Where a block says how far behind it the block in that memory lies."""
        return _PARTS + 8 * self.number


@dataclass(frozen=True, slots=True)
class Context:
    """Where an instrument is put: what is live there, the original address, bytes pushed by the splice."""

    live: int
    address: int
    pushed: int = 0
