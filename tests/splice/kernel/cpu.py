# SPDX-License-Identifier: LGPL-2.1-or-later
"""CPUs of a kernel that run a patch one instruction at a time, with everything that can happen in between.

Before each instruction everything below the stack pointer is overwritten, as an interrupt would do; a callback may also
run something else, or move the task to another CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from tests.oracle.relocate import GPRS

u: Any = import_module("unicorn")
x: Any = import_module("unicorn.x86_const")

CODE, CODE_SIZE = 0xFFFFFFFFC0100000, 0x10000
END = CODE + CODE_SIZE - 0x1000
CPUS = (0xFFFF888000100000, 0xFFFF888000200000)  # where GS points
GS_SIZE = 0x2000
FAR = 0x7F_0000_0000  # a per-CPU offset that no displacement holds
RING, RING_SIZE = 0xFFFFC90000400000, 0x10000
TASK = 0xFFFF888004000000
STACK, STACK_SIZE = 0xFFFFC90000100000, 0x4000
SCRIBBLED = 256
_PHYSICAL = (1 << 47) - 1  # unicorn itself knows no addresses above
LIMIT = 200

#: (address, size) of all memory besides code.
_MEMORY = (
    *((base, GS_SIZE) for base in CPUS),
    *((base + FAR, GS_SIZE) for base in CPUS),
    *((RING + n * RING_SIZE, RING_SIZE) for n in range(len(CPUS))),
    (TASK, 0x1000),
    (STACK, STACK_SIZE),
)

Between = Callable[["Cpu", int], None]


@dataclass
class Cpu:
    """A CPU. ``services`` are functions of the driver by address, played in Python; each gets the CPU, and returns."""

    code: bytes
    services: dict[int, Callable[[Cpu], None]] = field(default_factory=dict)
    trips: int = 0  # instructions executed, services not counted

    def __post_init__(self) -> None:
        self.engine = u.Uc(u.UC_ARCH_X86, u.UC_MODE_64)
        self.engine.ctl_set_tlb_mode(u.UC_TLB_VIRTUAL)
        self.engine.hook_add(u.UC_HOOK_TLB_FILL, _translate)
        self.engine.mem_map(CODE & _PHYSICAL, CODE_SIZE)
        self.put(CODE, self.code)
        for address, size in _MEMORY:
            self.engine.mem_map(address & _PHYSICAL, size)
        self.move_to(0)

    # Registers and memory.

    def __getitem__(self, name: str) -> int:
        return int(self.engine.reg_read(getattr(x, f"UC_X86_REG_{name.upper()}")))

    def __setitem__(self, name: str, value: int) -> None:
        self.engine.reg_write(getattr(x, f"UC_X86_REG_{name.upper()}"), value & (1 << 64) - 1)

    def read(self, address: int, size: int = 8) -> int:
        return int.from_bytes(self.get(address, size), "little")

    def write(self, address: int, value: int, size: int = 8) -> None:
        self.put(address, value.to_bytes(size, "little"))

    def get(self, address: int, size: int) -> bytes:
        return bytes(self.engine.mem_read(address & _PHYSICAL, size))

    def put(self, address: int, data: bytes) -> None:
        self.engine.mem_write(address & _PHYSICAL, data)

    def move_to(self, cpu: int) -> None:
        self["gs_base"] = CPUS[cpu]

    @property
    def registers(self) -> dict[str, int]:
        return {name: self[name] for name in GPRS}

    def memory(self) -> dict[int, bytes]:
        """All memory except that below the stack pointer."""
        found = {address: self.get(address, size) for address, size in _MEMORY}
        found[STACK] = found[STACK][self["rsp"] - STACK :]
        return found

    # Running.

    def run(self, registers: Mapping[str, int], flags: int, between: Between | None = None) -> None:
        """Run from the code's first instruction to END."""
        for name, value in registers.items():
            self[name] = value
        self["eflags"] = flags
        self.go_on(CODE, between)

    def go_on(self, pc: int, between: Between | None = None) -> None:
        for step in range(LIMIT):
            self._scribble()
            if pc == END:
                return
            if between:
                between(self, step)
            if pc in self.services:
                self.services[pc](self)
                pc = self._return()
            else:
                self.trips += 1
                self.engine.emu_start(pc, 0, count=1)
                pc = self["rip"]
        raise AssertionError(f"still at {pc:#x} after {LIMIT} instructions")

    def interrupt(self, flags: int = 0x2) -> None:
        """Run the whole code once more, above the current stack; afterwards only memory differs."""
        kept, before, trips = self.registers, self["eflags"], self.trips
        self["rsp"] -= SCRIBBLED
        self["eflags"] = flags
        self.go_on(CODE)
        for name, value in kept.items():
            self[name] = value
        self["eflags"] = before
        self.trips = trips

    def _return(self) -> int:
        back = self.read(self["rsp"])
        self["rsp"] += 8
        return back

    def _scribble(self) -> None:
        low = max(self["rsp"] - SCRIBBLED, STACK)
        self.put(low, b"\xa5" * (self["rsp"] - low))


def _translate(engine: Any, address: int, access: int, entry: Any, data: Any) -> bool:
    writable = not CODE <= address < CODE + CODE_SIZE
    entry.paddr = address & _PHYSICAL
    entry.perms = u.UC_PROT_READ | (u.UC_PROT_WRITE if writable else u.UC_PROT_EXEC)
    return True
