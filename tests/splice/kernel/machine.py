# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs functions of a kernel from entry to return, and notes every instruction that they pass.

All memory exists: a page is made when first touched, with contents that depend only on its address. A trap leads where
the driver's handler would lead it. Unicorn knows no addresses of the upper half, so pages are mapped here, to free
places.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from tests.oracle.relocate import GPRS

u: Any = import_module("unicorn")
x: Any = import_module("unicorn.x86_const")

PAGE = 4096
POOL = 2048  # pages
STACK_TOP = 0xFFFFC90000108000
GS_BASE = 0xFFFF888000100000
MAGIC = 0xFFFFFFFFBBBB0000  # where the function that is run returns to
TRAP = 3
_GPR_IDS = [getattr(x, f"UC_X86_REG_{name.upper()}") for name in GPRS]


@dataclass(frozen=True)
class Outcome:
    """The end of a run. ``end`` is "returned", "limit", or the reason of the stop. ``pages`` are those that were
    touched.

    ``calls`` has an entry for each pass of a watched address, with the word on top of the stack.
    """

    end: str
    rip: int
    gpr: Mapping[str, int]
    flags: int
    pages: Mapping[int, bytes]
    visits: Counter[int]
    steps: int
    calls: tuple[tuple[int, int], ...]

    def word(self, address: int) -> int:
        page = self.pages.get(address & -PAGE) or contents(address & -PAGE)
        return int.from_bytes(page[address % PAGE : address % PAGE + 8], "little")


@cache
def contents(page: int) -> bytes:
    return hashlib.shake_128(page.to_bytes(8, "little")).digest(PAGE)


class Machine:
    """A machine; ``background`` gives the contents of a page before anything is laid over it."""

    def __init__(self, background: Callable[[int], bytes] = contents) -> None:
        self.background = background
        self.engine = u.Uc(u.UC_ARCH_X86, u.UC_MODE_64)
        self.engine.mem_map(0, POOL * PAGE)
        self.engine.ctl_set_tlb_mode(u.UC_TLB_VIRTUAL)
        self.pristine = self.engine.context_save()
        add = self.engine.hook_add
        add(u.UC_HOOK_TLB_FILL, self._on_miss)
        add(u.UC_HOOK_CODE, self._on_code)
        add(u.UC_HOOK_INTR, self._on_interrupt)
        self._begin({}, {}, (), ())

    def _begin(
        self, memory: Mapping[int, bytes], traps: Mapping[int, int], watched: Collection[int], rounds: Collection[int]
    ) -> None:
        self.memory, self.traps, self.watched, self.rounds = memory, traps, watched, rounds
        self.calls: list[tuple[int, int]] = []
        self.frames: dict[int, int] = {}  # virtual page -> physical
        self.visits: Counter[int] = Counter()
        self.last = self.steps = self.limit = 0
        self.reason = ""

    def run(
        self,
        entry: int,
        registers: Mapping[str, int],
        flags: int,
        memory: Mapping[int, bytes],
        traps: Mapping[int, int],
        watched: Collection[int] = (),
        rounds: Collection[int] = (),
        limit: int = 2000,
    ) -> Outcome:
        """Run a function. ``memory`` lies over the generated contents, later parts over earlier ones; ``traps`` are the
        targets of int3.

        ``rounds`` are instructions whose repetitions count as one visit.
        """
        self._begin(memory, traps, watched, rounds)
        self.limit = limit
        self.engine.context_restore(self.pristine)
        self.engine.ctl(u.UC_CTL_TLB_FLUSH, u.UC_CTL_IO_WRITE)
        self.engine.ctl_flush_tb()
        for name, value in ({"rsp": STACK_TOP - 8} | dict(registers)).items():
            self.engine.reg_write(_GPR_IDS[GPRS.index(name)], value)
        self.engine.reg_write(x.UC_X86_REG_EFLAGS, flags)
        self.engine.reg_write(x.UC_X86_REG_GS_BASE, GS_BASE)
        self.memory = {**memory, registers.get("rsp", STACK_TOP - 8): MAGIC.to_bytes(8, "little")}
        self._emulate(entry)
        return self._outcome()

    def _emulate(self, pc: int) -> None:
        try:
            self.engine.emu_start(pc, MAGIC)
        except u.UcError as error:
            self.reason = self.reason or f"error {error.errno}"
        if not self.reason:
            self.reason = "returned" if self.engine.reg_read(x.UC_X86_REG_RIP) == MAGIC else "stopped"

    def _outcome(self) -> Outcome:
        read = self.engine.reg_read
        pages = {page: bytes(self.engine.mem_read(frame, PAGE)) for page, frame in self.frames.items()}
        gpr = {name: read(register) for name, register in zip(GPRS, _GPR_IDS, strict=True)}
        flags, calls = read(x.UC_X86_REG_EFLAGS), tuple(self.calls)
        return Outcome(self.reason, self.last, gpr, flags, pages, self.visits, self.steps, calls)

    def _on_code(self, engine: Any, address: int, size: int, data: Any) -> None:
        if address == self.last and address in self.rounds:
            return
        self.last = address
        self.visits[address] += 1
        if address in self.watched:
            top = engine.reg_read(x.UC_X86_REG_RSP)
            frame = self.frames.get(top & -PAGE)
            page = self._filled(top & -PAGE) if frame is None else engine.mem_read(frame, PAGE)
            self.calls.append((address, int.from_bytes(page[top % PAGE :][:8], "little")))
        self.steps += 1
        if self.steps >= self.limit:
            self._stop("limit")

    def _on_interrupt(self, engine: Any, number: int, data: Any) -> None:
        if number == TRAP and self.last in self.traps:
            engine.reg_write(x.UC_X86_REG_RIP, self.traps[self.last])
        else:
            self._stop(f"interrupt {number}")

    def _stop(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.engine.emu_stop()

    def _on_miss(self, engine: Any, address: int, access: int, entry: Any, data: Any) -> bool:
        page = address & -PAGE
        if address >> 47 not in (0, (1 << 17) - 1):
            return False
        frame = self.frames.get(page)
        if frame is None:
            if len(self.frames) == POOL:
                return False
            frame = self.frames[page] = len(self.frames) * PAGE
            engine.mem_write(frame, self._filled(page))
        entry.paddr, entry.perms = frame, u.UC_PROT_ALL
        return True

    def _filled(self, page: int) -> bytes:
        data = bytearray(self.background(page))
        for address, piece in self.memory.items():
            low, high = max(address, page), min(address + len(piece), page + PAGE)
            if low < high:
                data[low - page : high - page] = piece[low - address : high - address]
        return bytes(data)


@cache
def machine() -> Machine:
    return Machine()
