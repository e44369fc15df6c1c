# SPDX-License-Identifier: LGPL-2.1-or-later
"""From a plan to the units that the driver applies (native/abi/ilk_abi.h, UNITS).

A unit is one splice: a window of whole instructions, what must be there, what
is written, and where the driver sends a CPU that it finds inside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum

from gilk.arch import decode as x86
from gilk.arch.asm import CALL32, INT3, JMP8
from gilk.splice.plan import FunctionPlan, Patch, Site
from gilk.values import dataclass

_LONGEST = 15
_JUMP_SIZE = 5
WINDOW = 24  # ILK_WINDOW: bytes of the widest

Read = Callable[[int, int], bytes]


class Kind(IntEnum):
    SINGLE = 1
    MULTI = 2
    SHORT = 3
    TRAP = 4
    FENTRY = 5
    PAD = 6


@dataclass(frozen=True, slots=True)
class Unit:
    """``copy``: the displaced instructions elsewhere; 0 where the driver needs none.

    Of a SHORT, ``pad`` is the address of the PAD it leads to, and ``several`` whether it covers several instructions.
    """

    kind: Kind
    address: int
    old: bytes
    new: bytes
    patch: int
    copy: int = 0
    pad: int = 0
    several: bool = False

    @property
    def end(self) -> int:
        return self.address + len(self.old)


def units(plan: FunctionPlan, read: Read) -> tuple[Unit, ...]:
    """All of a function, those that others depend on first. They are to be applied, and undone, together.

    ``read(address, size)`` gives the code as it is without any plan.
    """
    return tuple(_Units(plan, read).all())


def fills(plans: Iterable[FunctionPlan]) -> list[Patch]:
    """Everything that goes into arenas, joined where patches are neighbours; what is between them traps."""
    joined: list[tuple[int, bytearray]] = []
    for patch in sorted(patch for plan in plans for patch in plan.patches):
        gap = patch.address - joined[-1][0] - len(joined[-1][1]) if joined else -1
        if 0 <= gap < 16:
            joined[-1][1].extend(INT3 * gap + patch.data)
        else:
            joined.append((patch.address, bytearray(patch.data)))
    return [Patch(address, bytes(data)) for address, data in joined]


class _Units:
    def __init__(self, plan: FunctionPlan, read: Read) -> None:
        self._plan = plan
        self._read = read
        self._starts = {patch.address: patch.address + len(patch.data) for patch in plan.patches}
        self._patches = {e.original: e.patch for e in plan.equivalences if e.before and e.patch in self._starts}
        self._behind: dict[int, list[int]] = defaultdict(list)  # original -> where in patches its instruments have run
        for e in plan.equivalences:
            if not e.before:
                self._behind[e.original].append(e.patch)
        self._displaced = set(plan.displaced)
        sites = sorted(plan.sites)
        self._shorts = [site for site in sites if site.new.startswith(JMP8)]
        self._pads = {_pad_of(site): site for site in self._shorts}
        self._sites = [s for s in sites if s.address not in self._pads and not s.new.startswith(JMP8)]

    def all(self) -> Iterator[Unit]:
        if self._plan.fentry:
            address, patch = self._plan.fentry
            code = self._read(address, _JUMP_SIZE)
            yield Unit(Kind.FENTRY, address, code, code, patch)
        hosts = [self._unit(site) for site in self._sites]
        yield from hosts
        for pad, short in sorted(self._pads.items()):
            yield self._pad(pad, self._patches[short.address], hosts)
        yield from (self._short(site) for site in self._shorts)

    def _unit(self, site: Site) -> Unit:
        if site.new == INT3:
            code = self._window(site.address, 1)
            return Unit(Kind.TRAP, site.address, code, INT3 + code[1:], self._patches[site.address])
        new = site.new
        if new.startswith(CALL32):
            return Unit(Kind.SINGLE, site.address, site.old, new, _target(site))
        code = self._window(site.address, self._needed(site.address) - site.address)
        kind = Kind.SINGLE if _is_single(code, site.address) else Kind.MULTI
        new += INT3 * (len(code) - len(new))
        return Unit(kind, site.address, code, new, self._patches[site.address], self._copy(site.address))

    def _short(self, site: Site) -> Unit:
        code = self._window(site.address, len(site.new))
        new = site.new + INT3 * (len(code) - len(site.new))
        several = not _is_single(code, site.address)
        patch, copy = self._patches[site.address], self._copy(site.address)
        return Unit(Kind.SHORT, site.address, code, new, patch, copy, _pad_of(site), several)

    def _pad(self, address: int, patch: int, hosts: list[Unit]) -> Unit:
        """In a host's window, or else in padding, where it takes the whole of a nop."""
        written = next(site.new for site in self._plan.sites if site.address == address)
        for host in hosts:
            if host.address + _JUMP_SIZE <= address and address + _JUMP_SIZE <= host.end:
                at = address - host.address
                return Unit(Kind.PAD, address, host.new[at : at + _JUMP_SIZE], written, patch)
        code = self._window(address, _JUMP_SIZE)
        return Unit(Kind.PAD, address, code, written + INT3 * (len(code) - _JUMP_SIZE), patch)

    def _window(self, address: int, size: int) -> bytes:
        """The instructions that the first ``size`` bytes belong to."""
        code = self._read(address, size + _LONGEST)
        end = next(i.next_ip for i in x86.decode(code, address) if i.next_ip >= address + size)
        return code[: end - address]

    def _needed(self, start: int) -> int:
        """How far the bytes of the jump at ``start`` and of the pads that it lends room go."""
        end = start + _JUMP_SIZE
        inside = [pad + _JUMP_SIZE for pad in self._pads if start < pad <= start + WINDOW - _JUMP_SIZE]
        extent = self._extent(start) if inside else end
        return max([end, *(pad for pad in inside if pad <= extent)])

    def _extent(self, start: int) -> int:
        """How far the instructions displaced along with the one at ``start`` go."""
        end = start
        for instruction in x86.decode(self._read(start, WINDOW + _LONGEST), start):
            if instruction.ip != start and instruction.ip not in self._displaced:
                break
            end = instruction.next_ip
        return end

    def _copy(self, address: int) -> int:
        """Where in its patch the instruction at ``address`` is, behind its instruments."""
        start = self._patches[address]
        end = self._starts[start]
        return min(at for at in self._behind[address] if start <= at < end)


def _pad_of(short: Site) -> int:
    return short.address + len(JMP8) + 1 + int.from_bytes(short.new[1:2], "little", signed=True)


def _target(site: Site) -> int:
    return site.address + _JUMP_SIZE + int.from_bytes(site.new[1:5], "little", signed=True)


def _is_single(code: bytes, address: int) -> bool:
    """One instruction, or a return and the int3 behind it."""
    first, *rest = x86.decode(code, address)
    return not rest or (first.flow_control == x86.RETURN and all(map(x86.is_trap, rest)))
