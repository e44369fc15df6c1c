# SPDX-License-Identifier: LGPL-2.1-or-later
"""The context in which plans are made: an image in a target, its place there, and the changes made to it so far."""

from __future__ import annotations

import bisect
import itertools
from dataclasses import field
from functools import cached_property

from gilk.analysis.analysis import Analysis
from gilk.arch.asm import JMP32, JUMP_SIZE
from gilk.image.model import SymbolKind
from gilk.splice.allocator import Arena, PunPages
from gilk.splice.byte_registry import Registry
from gilk.splice.host import Host
from gilk.splice.plan import Site
from gilk.splice.policy import PROCESS, Policy
from gilk.values import dataclass

_new = tuple.__new__  # makes a NamedTuple in a third of the time that its own constructor takes


@dataclass
class PatchContext:
    """One image in one target: its place, and the changes made to it so far. It changes as plans are made.

    ``keeps_code``: plans keep the PatchCode that their patches were made of. ``makes_code``: if False, plans tell the
    tactics only; instead of code, patches have as much room as it would take. ``tails``: for the ends of functions that
    may need padding behind them, because nothing else will do, the number of bytes that they need.
    """

    analysis: Analysis
    bias: int
    arena: Arena
    puns: PunPages
    host: Host
    policy: Policy = PROCESS
    keeps_code: bool = False
    makes_code: bool = True
    registry: Registry = field(init=False)
    tails: dict[int, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.registry = Registry(self.analysis.image)

    def mark(self) -> tuple[int, int]:
        """A mark for ``reset``, which is allowed as long as no memory handed out since has been used."""
        return self.arena.mark(), self.puns.mark()

    def reset(self, mark: tuple[int, int]) -> None:
        self.arena.reset(mark[0])
        self.puns.reset(mark[1])

    @cached_property
    def symbols(self) -> list[int]:
        """The sorted addresses of all symbols that are not data."""
        return sorted({s.address for s in self.analysis.image.symbols if s.kind is not SymbolKind.OBJECT})

    def site(self, address: int, new: bytes) -> Site:
        """A site with the bytes ``new`` at a link-time address; the registry has them there from now on."""
        return _new(Site, (address + self.bias, self.registry.write(address, new), new))

    def jump(self, at: int, patch: int) -> Site:
        """A site with a jump from a link-time address to the patch."""
        return self.site(at, self.relative(JMP32, at, patch))

    def relative(self, opcode: bytes, at: int, target: int) -> bytes:
        """The bytes of a jump or call at a link-time address to ``target`` in memory."""
        distance = target - (at + self.bias + JUMP_SIZE)
        return opcode + distance.to_bytes(4, "little", signed=True)

    def reserved(self, start: int, end: int) -> list[tuple[int, int, str]]:
        """The ranges that must not be changed and overlap [start, end), as (start, end, refusal)."""
        low = bisect.bisect_right(self._reach, start)
        high = bisect.bisect_left(self._reserved, (end,))
        return [found for found in self._reserved[low:high] if found[1] > start]

    @cached_property
    def _reserved(self) -> list[tuple[int, int, str]]:
        return sorted(self.analysis.image.reserved)

    @cached_property
    def _reach(self) -> list[int]:
        """The highest end of all reserved ranges up to and with each of them."""
        return list(itertools.accumulate((end for _, end, _ in self._reserved), max))

    @cached_property
    def _entered(self) -> list[int]:
        """The addresses that anything in the image leads to from elsewhere than a function's own branches, sorted."""
        jumps = self.analysis.jumps
        return sorted({*jumps.targets.tolist(), *jumps.taken.tolist()})

    def idle_end(self, start: int, end: int) -> int:
        """The first address in the padding from ``start`` to ``end`` that something leads to, or ``end``."""
        index = bisect.bisect_left(self._entered, start)
        return min(self._entered[index], end) if index < len(self._entered) else end

    def is_idle(self, start: int, end: int) -> bool:
        """Whether nothing in the image leads into the padding [start, end)."""
        return self.idle_end(start, end) == end
