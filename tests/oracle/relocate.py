# SPDX-License-Identifier: LGPL-2.1-or-later
"""Run a piece of code under an emulator, and tell what state it leaves behind.

It serves to compare two placements of the same instructions:

    before = run(code, 0x400000, registers, memory={0x400000: code})
    after = run(moved, 0x7f0000, registers, memory={0x400000: code})
    assert differences(before, after) == []

All addresses count as mapped: a byte that was never written holds a value that depends only on its address, so that
both runs load the same from the same address. Vector registers are the sixteen xmm; unicorn does not know AVX, which
shows as a fault.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

# unicorn has no types, so its modules are imported as untyped values.
u: Any = import_module("unicorn")
x: Any = import_module("unicorn.x86_const")

PAGE = 4096
GPRS = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{n}" for n in range(8, 16)))
STATUS_FLAGS = 0xCD5  # CF PF AF ZF SF DF OF
DEFAULT_FLAGS = 0x202
FS_BASE = 0x7F00_0010_0000
GS_BASE = 0x7F00_0020_0000
STACK = 0x7FFE_0000_8000

_GPR_IDS = [getattr(x, f"UC_X86_REG_{name.upper()}") for name in GPRS]
_XMM_IDS = [getattr(x, f"UC_X86_REG_XMM{n}") for n in range(16)]
_OUT = [*_GPR_IDS, x.UC_X86_REG_EFLAGS, x.UC_X86_REG_RIP]
_OUTSIDE = (u.UC_ERR_FETCH_UNMAPPED, u.UC_ERR_FETCH_PROT)


@dataclass(frozen=True)
class State:
    """The state when control has left the code, or has faulted.

    ``rip`` is where control went, or the instruction that faulted; ``writes`` has every byte stored to, with its final
    value. ``fault`` is None, or the name of a unicorn error ("INSN_INVALID"), "syscall", "interrupt N" (0 is a division
    error) or "limit".
    """

    gpr: Mapping[str, int]
    flags: int
    rip: int
    xmm: tuple[int, ...]
    writes: Mapping[int, int]
    fault: str | None = None
    steps: int = 0


def run(
    code: bytes,
    address: int,
    registers: Mapping[str, int] | None = None,
    memory: Mapping[int, bytes] | None = None,
    *,
    xmm: Mapping[int, int] | None = None,
    flags: int = DEFAULT_FLAGS,
    entry: int | None = None,
    stop: Collection[int] = (),
    limit: int = 1000,
) -> State:
    """Execute ``code``, placed at ``address``, from ``entry`` (default ``address``) until control leaves it.

    The run stops before an instruction outside [address, address + len(code)) or at an address in ``stop`` (but for the
    first instruction executed), at a fault, or after ``limit`` instructions. ``registers`` are by name ("rax"); those
    not given are 0, rsp is STACK. ``memory`` overlays the generated contents with bytes, at any address; the code goes
    on top.
    """
    placed = _Code(address, address + len(code), stop, limit)
    return _emulator().run(placed, code, entry, memory or {}, _values(registers or {}, xmm or {}, flags))


def differences(a: State, b: State, *, ignore: Collection[str] = (), flags: int = STATUS_FLAGS) -> list[str]:
    """The differences between ``b`` and ``a``, a line each: registers, flags in ``flags``, xmm, writes, fault.

    ``ignore`` names registers, "rip", "flags", "writes" or "fault". Code that runs past its end leaves different values
    of rip at different places: ignore rip, or end both with a jump to one address.
    """
    pairs: list[tuple[str, object, object]] = [(name, a.gpr[name], b.gpr[name]) for name in GPRS]
    pairs += [("flags", a.flags & flags, b.flags & flags), ("rip", a.rip, b.rip), ("fault", a.fault, b.fault)]
    pairs += [(f"xmm{n}", a.xmm[n], b.xmm[n]) for n in range(16)]
    if "writes" not in ignore:
        pairs += [(f"[{at:#x}]", a.writes.get(at), b.writes.get(at)) for at in sorted({*a.writes, *b.writes})]
    return [
        f"{name}: {_hex(one)} and {_hex(other)}" for name, one, other in pairs if name not in ignore and one != other
    ]


def initial_byte(address: int) -> int:
    """The value of the byte at ``address`` before anything is written or overlaid."""
    return _contents(address & -PAGE)[address % PAGE]


@cache
def _contents(page: int) -> bytes:
    return hashlib.shake_128(page.to_bytes(8, "little")).digest(PAGE)


@dataclass(frozen=True, slots=True)
class _Code:
    """The place of the code, and the conditions that end a run."""

    start: int
    end: int
    stop: Collection[int]
    limit: int

    def left_at(self, address: int) -> bool:
        return not self.start <= address < self.end or address in self.stop


class _Emulator:
    """One engine for all runs: making an engine, and hooking it, takes longer than a run."""

    def __init__(self) -> None:
        self.engine = u.Uc(u.UC_ARCH_X86, u.UC_MODE_64)
        self.pristine = self.engine.context_save()
        self.pages: set[int] = set()
        self._begin(_Code(0, 0, (), 0), {})
        add = self.engine.hook_add
        add(u.UC_HOOK_CODE, self._on_code)
        add(u.UC_HOOK_MEM_UNMAPPED, self._on_unmapped)
        add(u.UC_HOOK_MEM_WRITE, self._on_write)
        add(u.UC_HOOK_INTR, self._on_interrupt)
        add(u.UC_HOOK_INSN, self._on_syscall, None, 1, 0, x.UC_X86_INS_SYSCALL)

    def run(
        self, placed: _Code, code: bytes, entry: int | None, memory: Mapping[int, bytes], values: list[tuple[int, int]]
    ) -> State:
        self._begin(placed, memory)
        try:
            self._map(placed.start, len(code), executable=True)
            self.engine.mem_write(placed.start, code)
            # This also clears an exception of the run before, which would make the next one a double fault.
            self.engine.context_restore(self.pristine)
            self.engine.reg_write_batch(values)
            self._emulate(placed.start if entry is None else entry)
            return self._state()
        finally:
            self._unmap()

    def _begin(self, placed: _Code, memory: Mapping[int, bytes]) -> None:
        self.placed, self.memory = placed, memory
        self.written: set[int] = set()
        self.steps = self.last = 0
        self.fault: str | None = None

    def _emulate(self, entry: int) -> None:
        try:
            # Unicorn translates ahead, but must not do so past the end: the memory there may not be mapped.
            self.engine.emu_start(entry, self.placed.end)
        except u.UcError as error:
            rip = self.engine.reg_read(x.UC_X86_REG_RIP)
            if error.errno not in _OUTSIDE or not self.placed.left_at(rip):
                self.fault = self.fault or _error_name(error.errno)

    def _state(self) -> State:
        *gpr, flags, rip = self.engine.reg_read_batch(_OUT)
        return State(
            gpr=dict(zip(GPRS, gpr, strict=True)),
            flags=flags,
            rip=self.last if self.fault else rip,
            xmm=tuple(self.engine.reg_read_batch(_XMM_IDS)),
            writes={address: self.engine.mem_read(address, 1)[0] for address in self.written},
            fault=self.fault,
            steps=self.steps,
        )

    def _on_code(self, engine: Any, address: int, size: int, _: object) -> None:
        if self.steps and self.placed.left_at(address):
            engine.emu_stop()
            return
        self.last = address
        if self.steps == self.placed.limit:
            self._stop("limit")
        else:
            self.steps += 1

    def _on_unmapped(self, engine: Any, access: int, address: int, size: int, value: int, _: object) -> bool:
        if access == u.UC_MEM_FETCH_UNMAPPED or not _is_canonical(address):
            return False
        self._map(address, size)
        return True

    def _on_write(self, engine: Any, access: int, address: int, size: int, value: int, _: object) -> None:
        if _is_canonical(address):
            self.written.update(range(address, address + size))

    def _on_interrupt(self, engine: Any, number: int, _: object) -> None:
        self._stop(f"interrupt {number}")

    def _on_syscall(self, engine: Any, _: object) -> None:
        self._stop("syscall")

    def _stop(self, fault: str) -> None:
        self.fault = fault
        self.engine.emu_stop()

    def _map(self, address: int, size: int, *, executable: bool = False) -> None:
        """Map the pages of [address, address + size) with their contents; only those of the code are executable."""
        rights = u.UC_PROT_ALL if executable else u.UC_PROT_READ | u.UC_PROT_WRITE
        for page in range(address & -PAGE, address + max(size, 1), PAGE):
            if page not in self.pages:
                self.engine.mem_map(page, PAGE, rights)
                self.engine.mem_write(page, _overlaid(page, self.memory))
                self.pages.add(page)

    def _unmap(self) -> None:
        for page in self.pages:
            self.engine.mem_unmap(page, PAGE)
        self.pages.clear()


@cache
def _emulator() -> _Emulator:
    return _Emulator()


def _is_canonical(address: int) -> bool:
    return address >> 47 in (0, (1 << 17) - 1)


def _overlaid(page: int, memory: Mapping[int, bytes]) -> bytes:
    contents = _contents(page)
    for address, data in memory.items():
        low, high = max(address, page), min(address + len(data), page + PAGE)
        if low < high:
            contents = contents[: low - page] + data[low - address : high - address] + contents[high - page :]
    return contents


def _values(registers: Mapping[str, int], xmm: Mapping[int, int], flags: int) -> list[tuple[int, int]]:
    """The registers to load, by unicorn's numbers; all others are 0. Raises ValueError for a name that is no general
    register."""
    unknown = set(registers) - set(GPRS)
    if unknown:
        raise ValueError(f"not general registers: {', '.join(sorted(unknown))}")
    general = {"rsp": STACK} | dict(registers)
    return [
        *((_GPR_IDS[GPRS.index(name)], value) for name, value in general.items()),
        *((_XMM_IDS[n], value) for n, value in xmm.items()),
        (x.UC_X86_REG_EFLAGS, flags),
        (x.UC_X86_REG_FS_BASE, FS_BASE),
        (x.UC_X86_REG_GS_BASE, GS_BASE),
    ]


def _error_name(number: int) -> str:
    names = [name for name in dir(u) if name.startswith("UC_ERR_") and getattr(u, name) == number]
    return names[0].removeprefix("UC_ERR_") if names else str(number)


def _hex(value: object) -> str:
    return hex(value) if isinstance(value, int) else str(value)
