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
from gilk.arch.asm import INT3
from gilk.splice.plan import FunctionPlan, Patch, Site, Splice, Tactic
from gilk.values import dataclass

_LONGEST = 15
_JUMP_SIZE = 5
_DIRECT = (Tactic.JUMP, Tactic.CALL, Tactic.TRAP)

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
        self._read = read
        self._splices = sorted(plan.splices, key=lambda splice: splice.window.address)
        self._lent: dict[int, int] = defaultdict(int)  # by a host's address: where the last pad in its bytes ends
        for splice in plan.splices:
            if splice.bounce and splice.host:
                self._lent[splice.host] = max(self._lent[splice.host], splice.bounce.end)

    def all(self) -> Iterator[Unit]:
        yield from (self._fentry(splice) for splice in self._splices if splice.tactic is Tactic.FENTRY)
        hosts = {splice.window.address: self._direct(splice) for splice in self._splices if splice.tactic in _DIRECT}
        yield from hosts.values()
        shorts = [(splice, splice.bounce) for splice in self._splices if splice.bounce]
        for splice, pad in sorted(shorts, key=lambda pair: pair[1].address):
            yield self._pad(pad, splice.patch, hosts.get(splice.host))
        yield from (self._short(splice, pad) for splice, pad in shorts)

    def _fentry(self, splice: Splice) -> Unit:
        code = self._read(splice.window.address, _JUMP_SIZE)
        return Unit(Kind.FENTRY, splice.window.address, code, code, splice.patch)

    def _direct(self, splice: Splice) -> Unit:
        address, old, new = splice.window
        if splice.tactic is Tactic.CALL:
            return Unit(Kind.SINGLE, address, old, new, splice.patch)
        code, several = self._window(splice)
        if splice.tactic is Tactic.TRAP:
            return Unit(Kind.TRAP, address, code, new + code[1:], splice.patch)
        kind = Kind.MULTI if several else Kind.SINGLE
        return Unit(kind, address, code, _filled(new, code), splice.patch, splice.copy)

    def _short(self, splice: Splice, pad: Site) -> Unit:
        code, several = self._window(splice)
        new = _filled(splice.window.new, code)
        return Unit(Kind.SHORT, splice.window.address, code, new, splice.patch, splice.copy, pad.address, several)

    def _pad(self, pad: Site, patch: int, host: Unit | None) -> Unit:
        """In a host's window, or else in padding, where it takes the whole of a nop."""
        if host:
            at = pad.address - host.address
            return Unit(Kind.PAD, pad.address, host.new[at : at + len(pad.new)], pad.new, patch)
        code = self._read(pad.address, len(pad.new) + _LONGEST)
        end = next(i.next_ip for i in x86.decode(code, pad.address) if i.next_ip >= pad.end)
        code = code[: end - pad.address]
        return Unit(Kind.PAD, pad.address, code, _filled(pad.new, code), patch)

    def _window(self, splice: Splice) -> tuple[bytes, bool]:
        """The instructions that the bytes of the splice, and of the pads that it lends room, belong to; whether they
        are several. What is behind the last is int3 behind a return, which count as a part of it.
        """
        start, written = splice.window.address, max(splice.window.end, self._lent[splice.window.address])
        end = next((at for at in splice.displaced[1:] if at >= written), written)
        return self._read(start, end - start), splice.displaced[1] < min(end, splice.end)


def _filled(new: bytes, code: bytes) -> bytes:
    """What is left of the instructions traps."""
    return new + INT3 * (len(code) - len(new))
