# SPDX-License-Identifier: LGPL-2.1-or-later
"""The state of a stopped thread, as it will be when the thread goes on."""

from __future__ import annotations

from gilk.targets import ptrace
from gilk.targets.frames import ContextRegisters
from gilk.values import dataclass

_EINTR, _ERESTARTNOHAND = -4 & (1 << 64) - 1, -514 & (1 << 64) - 1

#: System calls that fail with EINTR when a tracer stops the thread, though no signal arrived, and may simply be made
#: again (signal(7), "Interruption of system calls"): semop msgsnd msgrcv rt_sigtimedwait io_getevents semtimedop
#: epoll_wait epoll_pwait io_pgetevents io_uring_enter (which has submitted nothing then) epoll_pwait2.
_RESTARTABLE = frozenset((65, 69, 70, 128, 208, 220, 232, 281, 333, 426, 441))
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

    def restart(self) -> bool:
        """Have the kernel make a system call again that has failed only because a tracer has stopped the thread.
        Returns whether there is one."""
        if self.registers.rax != _EINTR or self.registers.orig_rax not in _RESTARTABLE:
            return False
        self.registers.rax = _ERESTARTNOHAND
        return True

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
