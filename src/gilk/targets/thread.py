# SPDX-License-Identifier: LGPL-2.1-or-later
"""The state of a stopped thread, as it will be when the thread goes on."""

from __future__ import annotations

from gilk.targets import ptrace
from gilk.targets.frames import ContextRegisters
from gilk.values import dataclass

#: The general registers, by their numbers.
_GENERAL = (
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
)  # fmt: skip
_RESTARTS = frozenset(-n & (1 << 64) - 1 for n in (512, 513, 514, 516))


@dataclass
class Thread:
    """A stopped thread. ``signal`` (0: none), with its ``info``, was on its way to the thread and is delivered when it
    resumes. ``dirty``: ``registers`` were changed and are yet to be written to the thread."""

    tid: int
    signal: int
    registers: ptrace.Registers
    dirty: bool = False
    mask: int | None = None  # its own signal mask, where another is in force
    info: ptrace.SignalInfo | None = None
    group_stop: bool = False  # it stood still with its process, as for job control (ptrace(2), group-stop)

    def restarting(self) -> bool:
        """Whether the thread is in a system call that the kernel is going to restart: its rip will move back by two."""
        return self.registers.orig_rax >> 63 == 0 and self.registers.rax in _RESTARTS

    def move(self, rip: int) -> None:
        self.registers.rip = rip
        self.dirty = True

    def context(self) -> ContextRegisters:
        """The general registers, flags and rip."""
        general = tuple(getattr(self.registers, name) for name in _GENERAL)
        return ContextRegisters(general, self.registers.eflags, self.registers.rip)

    def take(self, registers: ContextRegisters) -> None:
        """Set the general registers, flags and rip."""
        for name, value in zip(_GENERAL, registers.general, strict=True):
            setattr(self.registers, name, value)
        self.registers.eflags = registers.flags
        self.move(registers.rip)

    def attach_block(self, base: int) -> None:
        self.registers.gs_base = base
        self.dirty = True
