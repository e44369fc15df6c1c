# SPDX-License-Identifier: LGPL-2.1-or-later
"""Units, which the driver applies (native/abi/ilk_abi.h, UNITS), and the windows of a plan that they are made of.

A unit is one splice: a window of whole instructions, the bytes that must be there, the bytes that are written, and the
address to which the driver sends a CPU that it finds inside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from enum import IntEnum

from gilk.arch.asm import INT3
from gilk.splice.plan import FunctionPlan, Splice
from gilk.values import dataclass

Read = Callable[[int, int], bytes]


class UnitKind(IntEnum):
    SINGLE = 1
    MULTI = 2
    SHORT = 3
    TRAP = 4
    FENTRY = 5
    PAD = 6


@dataclass(frozen=True, slots=True)
class Unit:
    """One splice for the driver. ``copy`` is the address of the displaced instructions in the patch, 0 if the driver
    needs none.

    A SHORT has in ``pad`` the address of the PAD that it leads to; ``several`` says whether it covers several
    instructions.
    """

    kind: UnitKind
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


class Windows:
    """The original code under the splices of a function; ``read(address, size)`` gives the code as it is without any
    plan.

    ``hosts``: the units of splices that others may lie in, by their addresses.
    """

    def __init__(self, plan: FunctionPlan, read: Read) -> None:
        self.read = read
        self.hosts: dict[int, Unit] = {}
        self._lent: dict[int, int] = defaultdict(int)  # the end of the last pad in a host, by the host's address
        for splice in plan.splices:
            if splice.bounce and splice.host:
                self._lent[splice.host] = max(self._lent[splice.host], splice.bounce.end)

    def code(self, splice: Splice) -> tuple[bytes, bool]:
        """The bytes of all instructions that the splice overwrites, itself or by the pads that it lends room to, and
        whether they are several instructions. The int3 behind a return count as a part of it.
        """
        start, written = splice.window.address, max(splice.window.end, self._lent[splice.window.address])
        end = next((at for at in splice.displaced[1:] if at >= written), written)
        return self.read(start, end - start), splice.displaced[1] < min(end, splice.end)


def filled(new: bytes, code: bytes) -> bytes:
    """``new``, followed by int3 up to the length of ``code``."""
    return new + INT3 * (len(code) - len(new))
