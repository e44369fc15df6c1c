# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs a part of a program as it was, and with a plan in force: patches, trampolines, counters and all.

The thread has a block at its GS base, as from the runtime; or it has none yet, and gets one from a claim thunk that
stands in for the runtime's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache

from unicorn.x86_const import UC_X86_REG_RSP

from gilk.arch import asm
from gilk.splice.plan import FunctionPlan
from gilk.splice.planner import PatchContext
from tests.oracle.relocate import FS_BASE, GS_BASE, PAGE, State, _Emulator, _values

KEY = 0x1234_5678_9ABC
SLACK = 1024  # bytes below the red zone that a patch may write to
RING = (0x340, 1 << 20)  # where writing begins, and the limit
LIMIT = 600  # instructions of a run, after which it counts as endless
_CLAIM = 13  # instructions, from where a block is claimed to where it is used, at most
_SAVE, _RESTORE = b"\x9c\x50", b"\x58\x9d"  # pushfq; push rax, and back
CLC_RET, STC_RET = b"\xf8\xc3", b"\xf9\xc3"


@dataclass(frozen=True)
class _Pieces:
    """Several ranges of code; a run ends where it leaves them."""

    ranges: tuple[tuple[int, int], ...]
    stop: Collection[int]
    limit: int
    start: int = 0
    end: int = 1  # nowhere

    def left_at(self, address: int) -> bool:
        return address in self.stop or not any(low <= address < high for low, high in self.ranges)


class Machine(_Emulator):
    """An emulator that also notes the stack pointer whenever it passes one of ``watched``."""

    def __init__(self) -> None:
        self.watched: Collection[int] = ()
        self.stacks: list[int] = []
        self.once: Collection[int] = ()
        self.passed: set[int] = set()
        self.again, self.since = 0, 0
        super().__init__()

    def execute(
        self,
        pieces: Mapping[int, bytes],
        entry: int,
        stop: Collection[int],
        memory: Mapping[int, bytes],
        start: Start,
        watched: Collection[int] = (),
        once: Collection[int] = (),
        again: int = 0,
        limit: int = LIMIT,
    ) -> State:
        """Run until before an address in ``stop``, or until an address in ``once`` is passed for the second time.

        If it has just passed ``again``, that does not count: the code tries once more what it was about to do. The
        fault of a run of more than ``limit`` instructions is "limit".
        """
        placed = _Pieces(tuple((at, at + len(code)) for at, code in pieces.items()), stop, limit)
        self._begin(placed, memory)  # type: ignore[arg-type]
        self.watched, self.stacks = watched, []
        self.once, self.passed, self.again, self.since = once, set(), again, _CLAIM + 1
        try:
            for at, code in pieces.items():
                # The emulator translates ahead, up to an instruction that begins in the page and ends in the next.
                self._map(at, len(code) + PAGE, executable=True)
                self.engine.mem_write(at, code)
            self.engine.context_restore(self.pristine)
            self.engine.reg_write_batch(_values(start.registers, start.xmm, start.flags))
            self._emulate(entry)
            return self._state()
        finally:
            self._unmap()

    def _on_code(self, engine: object, address: int, size: int, data: object) -> None:
        self.since += 1
        if address == self.again:
            self.since = 0
        if address in self.passed and self.since > _CLAIM:
            self.engine.emu_stop()
            return
        if address in self.once:
            self.passed.add(address)
        if address in self.watched:
            self.stacks.append(self.engine.reg_read(UC_X86_REG_RSP))
        super()._on_code(engine, address, size, data)


@dataclass(frozen=True)
class Start:
    """The state at the beginning of a run. ``owner`` is whether the thread has its block already."""

    registers: Mapping[str, int]
    flags: int
    xmm: Mapping[int, int] = field(default_factory=dict)
    owner: bool = True
    refused: bool = False  # there is no block to be had


@cache
def machine() -> Machine:
    return Machine()


def program(ground: PatchContext) -> dict[int, bytes]:
    """The image as it is loaded."""
    return {s.address + ground.bias: s.data for s in ground.analysis.image.segments if s.data}


def block(ground: PatchContext, start: Start) -> dict[int, bytes]:
    """The thread's block and its key, and the other rings all alike."""
    page = bytearray(0x1000)
    page[0:8] = (FS_BASE + KEY if start.owner else 1).to_bytes(8, "little")
    for kind in range(4):
        at = 64 + 32 * kind
        page[at : at + 24] = b"".join(n.to_bytes(8, "little") for n in (*RING, 0))
    return {GS_BASE: bytes(page), ground.host.key: KEY.to_bytes(8, "little")}


def claim_thunk(ground: PatchContext, start: Start) -> bytes:
    """A claim thunk that makes the block this thread's, or says that there is none; it changes only the carry."""
    if start.refused:
        return STC_RET
    head = _SAVE + asm.rdfsbase(asm.RAX)
    add = asm.add_rip(asm.RAX)
    distance = ground.host.key - (ground.host.claim + len(head) + len(add) + 4)
    store = b"\x65\x48\x89\x04\x25\0\0\0\0"  # mov gs:[0], rax
    return head + add + distance.to_bytes(4, "little", signed=True) + store + _RESTORE + CLC_RET


def patches(plans: Collection[FunctionPlan]) -> dict[int, bytes]:
    return {patch.address: patch.data for plan in plans for patch in plan.patches}
