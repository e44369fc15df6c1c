# SPDX-License-Identifier: LGPL-2.1-or-later
"""The facts that generated code must know of the kernel it runs in; the driver tells (native/abi/ilk_abi.h)."""

from __future__ import annotations

from gilk.analysis.analysis import Analysis
from gilk.splice.allocator import Arena, Occupied, PunPages
from gilk.splice.host import Host
from gilk.splice.patch_context import PatchContext
from gilk.splice.policy import KERNEL
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class InterruptMask:
    """A processor serves one while a bit of ``mask`` is set in its 32-bit word at ``word``, relative to GS."""

    word: int
    mask: int


@dataclass(frozen=True, slots=True)
class RingPlaces:
    """Where records go. Offsets are relative to GS; ``wpos`` and what else is by class is in their order.

    ``chunk`` is in bytes, ``reserve`` the address of ilk_reserve, ``current`` where the task pointer is, ``pid``
    where in a task its number is. ``filter`` is where the address is of a bit for each process, set where records of it
    are wanted, or 0 when all are; ``tgid``, where in a task the number of its process is. With ``interrupts`` bit 0
    says that they are wanted whoever they interrupt.
    """

    wpos: tuple[int, int, int, int]
    chunk: int
    set: int
    reserve: int
    current: int
    pid: int
    filter: int
    tgid: int
    interrupts: InterruptMask | None = None


def kernel_context(analysis: Analysis, arena: int, size: int, bias: int = 0, assume_live: int = 0) -> PatchContext:
    """A context for plans that put their patches in ``size`` bytes of the driver's memory at ``arena``.

    ``assume_live``: registers to keep everywhere, whatever analysis says.
    """
    host = Host(key=0, claim=0, counters=0, rings=(), assume_live=assume_live)
    return PatchContext(analysis, bias, Arena(arena, size, 0), PunPages(Occupied(()), 0, 0), host, KERNEL)
