# SPDX-License-Identifier: LGPL-2.1-or-later
"""The facts about a kernel that generated code must know; the driver tells them (native/abi/ilk_abi.h)."""

from __future__ import annotations

from gilk.analysis.analysis import Analysis
from gilk.splice.allocator import Arena, Occupied, PunPages
from gilk.splice.host import Host
from gilk.splice.patch_context import PatchContext
from gilk.splice.policy import KERNEL
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class InterruptMask:
    """How to find out whether a processor is in an interrupt: a bit of ``mask`` is set in its 32-bit word at ``word``,
    an offset from GS.
    """

    word: int
    mask: int


@dataclass(frozen=True, slots=True)
class RingPlaces:
    """The places in a kernel that code which writes a record refers to. Offsets are relative to GS; ``wpos`` has one
    for each record class, in their order.

    ``chunk`` is a size in bytes, ``reserve`` the address of ilk_reserve, ``current`` the offset of the task pointer,
    and ``pid`` and ``tgid`` are the offsets in a task of its number and of the number of its process. ``filter`` is the
    offset of a word: the address of a bit map with a bit for each process, set if records of that process are wanted,
    or 0 if those of all are. With ``interrupts``, bit 0 says that records of interrupts are wanted whatever process
    they interrupt.
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

    ``assume_live``: registers to save everywhere, whatever analysis says.
    """
    host = Host(key=0, claim=0, counters=0, rings=(), assume_live=assume_live)
    return PatchContext(analysis, bias, Arena(arena, size, 0), PunPages(Occupied(()), 0, 0), host, KERNEL)
