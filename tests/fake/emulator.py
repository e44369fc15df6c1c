# SPDX-License-Identifier: LGPL-2.1-or-later
"""Executes the code of an address space with unicorn, one instruction at a time if need be.

Nothing runs unless a test asks for it, and every run is the same: the program is exactly where the test has let it go.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from gilk.targets.ptrace import Registers
from tests.fake.space import PAGE, Region, Space

# unicorn has no types, so its modules are imported as untyped values.
u: Any = import_module("unicorn")
x: Any = import_module("unicorn.x86_const")

_PART = 16 * PAGE  # bytes handed to the emulator at a time: most of the mapped memory is never touched
_NAMES = (
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
    *("rip", "rsp"),
)
_SPECIAL = {"eflags": x.UC_X86_REG_EFLAGS, "fs_base": x.UC_X86_REG_FS_BASE, "gs_base": x.UC_X86_REG_GS_BASE}
_IDS = {name: getattr(x, f"UC_X86_REG_{name.upper()}") for name in _NAMES} | _SPECIAL
_GENERAL = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{number}" for number in range(8, 16)))
_BY_NUMBER = [_IDS[name] for name in _GENERAL]
_NOWHERE = 0


class Crash(Exception):
    """The program has done something for which a kernel would have sent a signal."""


class Emulator:
    """An emulator of one address space. ``on_call(registers)`` makes a system call, and returns whether the thread
    goes on at once."""

    def __init__(self, space: Space, on_call: Callable[[Registers], bool]) -> None:
        self._space = space
        self._on_call = on_call
        self._engine = u.Uc(u.UC_ARCH_X86, u.UC_MODE_64)
        self._parts: dict[int, int] = {}  # the memory that the engine has: beginnings and ends
        self._resume = _NOWHERE
        self.pristine = self._engine.context_save()
        space.on_change = self._forget
        self._engine.hook_add(u.UC_HOOK_MEM_UNMAPPED, self._on_unmapped)
        self._engine.hook_add(u.UC_HOOK_INSN_INVALID, self._on_unknown)
        self._engine.hook_add(u.UC_HOOK_INSN, self._on_syscall, None, 1, 0, x.UC_X86_INS_SYSCALL)

    def watch(self, start: int, end: int, executed: Callable[[int], None]) -> None:
        """Call ``executed`` with the address of every instruction executed between ``start`` and ``end``."""
        self._engine.hook_add(u.UC_HOOK_CODE, lambda _engine, at, _size, _data: executed(at), None, start, end - 1)

    def run(self, registers: Registers, vectors: Any, instructions: int) -> Any:
        """Execute so many instructions, or up to a system call after which the thread waits; ``registers`` then have
        the thread's new values.

        ``vectors`` is the rest of the thread's state; the new state is returned. Raises Crash.
        """
        engine = self._engine
        engine.context_restore(vectors)
        engine.ctl_flush_tb()  # code may have changed since the last run
        engine.reg_write_batch([(number, getattr(registers, name)) for name, number in _IDS.items()])
        self._resume = _NOWHERE
        try:
            engine.emu_start(registers.rip, _NOWHERE, count=instructions)
        except u.UcError as error:
            raise Crash(f"{error} at {engine.reg_read(x.UC_X86_REG_RIP):#x}") from None
        finally:
            self._read(registers)
        if self._resume:
            registers.rip = self._resume
        return engine.context_save()

    def register(self, name: str) -> int:
        """The value of a register of the thread that is executing."""
        value: int = self._engine.reg_read(_IDS[name])
        return value

    def _read(self, registers: Registers) -> None:
        for name, value in zip(_IDS, self._engine.reg_read_batch(list(_IDS.values())), strict=True):
            setattr(registers, name, value)

    def _on_syscall(self, engine: Any, _: object) -> None:
        registers = Registers()
        self._read(registers)
        registers.rcx, registers.r11 = registers.rip + 2, registers.eflags
        goes_on = self._on_call(registers)
        for name in ("rax", "rcx", "r11"):
            engine.reg_write(_IDS[name], getattr(registers, name))
        if not goes_on:
            self._resume = registers.rcx
            engine.emu_stop()

    def _on_unknown(self, engine: Any, _: object) -> bool:
        """Execute rdpid, which the emulator does not know: all threads are on processor 0."""
        rip = engine.reg_read(x.UC_X86_REG_RIP)
        code = self._space.some(rip, 5)
        found = re.match(rb"\xf3(\x41?)\x0f\xc7([\xf8-\xff])", code)
        if found is None:
            return False
        engine.reg_write(_BY_NUMBER[8 * bool(found[1]) + (found[2][0] & 7)], 0)
        engine.reg_write(x.UC_X86_REG_RIP, rip + len(found[0]))
        return True

    def _on_unmapped(self, engine: Any, access: int, address: int, size: int, value: int, _: object) -> bool:
        """Hand mapped memory to the engine when it is first touched."""
        pages = {address & -PAGE, address + max(size, 1) - 1 & -PAGE}
        for page in sorted(pages):
            if not self._has(page) and (region := self._space.at(page)) is not None:
                self._hand_over(region, page)
        return all(map(self._has, pages))

    def _has(self, page: int) -> bool:
        return any(start <= page < end for start, end in self._parts.items())

    def _hand_over(self, region: Region, page: int) -> None:
        start = max(region.start, page & -_PART)
        end = min(region.end, (page & -_PART) + _PART)
        flags = {"r": u.UC_PROT_READ, "w": u.UC_PROT_WRITE, "x": u.UC_PROT_EXEC}
        rights = sum(flags.get(letter, 0) for letter in region.rights)
        part = region.part(start, end)
        self._engine.mem_map_ptr(start, end - start, rights, part.backing.address + part.at)
        self._parts[start] = end

    def _forget(self, start: int, end: int) -> None:
        for low, high in list(self._parts.items()):
            if low < end and start < high:
                self._engine.mem_unmap(low, high - low)
                del self._parts[low]
