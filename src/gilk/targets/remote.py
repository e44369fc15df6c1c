# SPDX-License-Identifier: LGPL-2.1-or-later
"""Has a stopped thread of the target make system calls for gilk.

The thread's registers and signal mask are what they were when it goes on, and a system call that it was in is restarted
by the kernel as after any stop: the last stop is an event stop again, from which the kernel looks at ``orig_rax``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Iterator, Sequence

from gilk.errors import TargetError
from gilk.targets import haven, ptrace, rseq, seccomp
from gilk.targets.another_program import program_gone
from gilk.targets.call_list import MOST, STAND_IN, Call, CallList
from gilk.targets.haven import Haven
from gilk.targets.maps import Mapping, read_maps
from gilk.targets.memory import Memory, ProcessMemory, stretches
from gilk.targets.shelter import Shelter
from gilk.targets.system_calls import SystemCalls, not_our_call
from gilk.targets.thread import Thread
from gilk.targets.world import PtracedThreads

_SYSCALL = b"\x0f\x05"
_ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
_ALL = (1 << 64) - 1
_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP)
_TRAP = 1 << 8  # in the flags: SIGTRAP after each instruction
_ERRORS = 4095  # the largest error number (syscall(2))


def find_syscall(maps: tuple[Mapping, ...], memory: Memory) -> int:
    """The address of a ``syscall`` instruction: in the vdso if that has one, else in any code.

    Code that another process can write comes last: that process could replace the instruction by others, which the
    thread would execute. The thread's registers show whether the right call was made (Remote.call). Raises TargetError
    `no-syscall`; `no-such-process` where no code can be read, because the memory was opened before the process executed
    another program.
    """
    read = False
    code = sorted((m for m in maps if m.executable and m.path != "[vsyscall]"), key=_exchangeable)
    for start, content in stretches(code, memory, len(_SYSCALL)):
        read, at = True, content.find(_SYSCALL)
        if at >= 0:
            return start + at
    if not read:
        why = "the process has ended, or executes another program by now"
        raise TargetError("no-such-process", why, "if it is there, try again")
    raise TargetError("no-syscall", "the process has no system call instruction to use")


def _exchangeable(mapping: Mapping) -> tuple[bool, bool, bool, bool]:
    """A sort key: the harder it is for others to change a mapping's code, the lower. A file can be written by its
    owner, even where it is mapped privately, unless it is a program being executed; the vdso is no file."""
    permissions = mapping.permissions
    return mapping.path != "[vdso]", permissions.endswith("s"), "w" in permissions, not mapping.path.startswith("/")


class Remote(SystemCalls):
    """Makes system calls in ``thread``, which is in a ptrace stop. ``mask`` is the thread's own signal mask."""

    def __init__(self, thread: Thread, pid: int, memory: ProcessMemory, mask: int) -> None:
        super().__init__(memory)
        self._thread = thread
        self._pid = pid
        self._memory = memory
        self._mask = mask
        self._gate = _gate(pid, memory)
        self._haven: Haven | None = None
        self._overwritten: list[Haven] = []
        self.late: list[int] = []
        self.lost = False  # whether the thread has not come back in time
        self._shelter(memory.haven or haven.on_stack(thread, pid, memory))

    def _shelter(self, place: Shelter | None) -> None:
        """Write a frame from which the thread would take its own state back by itself if its tracer went, and block all
        its signals; the frame has its own mask."""
        self._haven = haven.prepare(self._thread, self._mask, self._memory, place)
        if self._haven is not None:
            if place is not self._memory.haven:
                self._overwritten.append(self._haven)
            ptrace.set_registers(self._thread.tid, self._sheltered())
        ptrace.set_mask(self._thread.tid, _ALL)

    def put_back(self) -> None:
        """Put back what lay below the thread's stack pointer; the thread's registers must be its own again."""
        while self._overwritten:
            self._overwritten.pop().put_back(self._memory)

    def leave_our_memory(self) -> None:
        self._memory.haven = None
        self._shelter(haven.on_stack(self._thread, self._pid, self._memory))

    def leave_code_of_files(self) -> None:
        """Make the following calls at the vdso's instruction, without a way back for the thread if its tracer goes."""
        self._haven = None
        ptrace.set_registers(self._thread.tid, self._sheltered())

    def _sheltered(self) -> ptrace.Registers:
        """Registers with which the thread is about to enter the kernel to take its own state back; its own registers if
        there is no haven."""
        registers = self._thread.registers.copy()
        registers.orig_rax = _ALL
        registers.eflags &= ~_TRAP  # the trap of a blocked signal would take the program's handler of SIGTRAP away
        if self._haven is not None:
            registers.rip, registers.rsp = self._haven.code, self._haven.frame
        return registers

    @property
    def tid(self) -> int:
        return self._thread.tid

    def call(self, number: int, *arguments: int) -> int:
        """Make a system call; returns its result. Raises ptrace.Late, too, when the thread does not come back; see
        SystemCalls.call."""
        registers, tid = self._sheltered(), self._thread.tid
        if self._haven is None:
            registers.rip, registers.rax = self._gate, number
        ptrace.set_registers(tid, registers)
        self._to_system_call(tid)
        for name, value in zip(_ARGUMENTS, arguments, strict=False):
            setattr(registers, name, value & _ALL)
        registers.orig_rax = number
        if self._haven is None:
            registers.rip += len(_SYSCALL)
        ptrace.set_registers(tid, registers)
        self._to_system_call(tid)
        found = ptrace.get_registers(tid)
        if not _is_answer(found, registers):
            raise not_our_call(tid, "has made another system call than gilk had it make")
        result = int(found.rax)
        if result > _ALL - _ERRORS - 1:
            code = _ALL + 1 - result
            raise OSError(code, os.strerror(code))
        return result

    def many(self, place: CallList, calls: Sequence[Call]) -> list[int]:
        """Have the thread make a list of calls by itself (call_list.py); see SystemCalls.many."""
        results: list[int] = []
        for part in (calls[at : at + MOST] for at in range(0, len(calls), MOST)):
            made = self._by_itself(place, part)
            if not made:
                raise ProcessLookupError(errno.ESRCH, "the process died")
            if made[-1] < -_ERRORS:
                raise not_our_call(self.tid, f"says that a system call failed with {-made[-1]}")
            results += made
            if made[-1] < 0:
                break
        return results

    def _by_itself(self, place: CallList, calls: Sequence[Call]) -> list[int]:
        place.write(self._memory, calls)
        tid, registers = self._thread.tid, self._sheltered()
        registers.rip, registers.rbx, registers.r12 = place.loop, place.page, len(calls)
        ptrace.set_registers(tid, registers)
        ptrace.set_mask(tid, _ALL & ~(1 << STAND_IN - 1))
        while True:
            status = self._next(ptrace.CONT)
            if status >> 8 == STAND_IN and ptrace.get_registers(tid).rip == place.end:
                break
            self.put_off(status)
        ptrace.set_mask(tid, _ALL)
        return place.results(self._memory, len(calls))

    def _to_system_call(self, tid: int) -> None:
        """Run to the next entry into, or exit from, a system call. Stops that were pending come first and are put
        off."""
        while True:
            status = self._next(ptrace.SYSCALL)
            if ptrace.is_syscall_stop(status):
                return
            self.put_off(status)

    def _next(self, how: int) -> int:
        """Let the thread run to its next stop; returns the wait status. Raises ProcessLookupError, ptrace.Late."""
        if self.lost:
            raise ptrace.Late
        ptrace.call(how, self._thread.tid, 0, 0)
        try:
            status = ptrace.wait(self._thread.tid)
        except ptrace.Late:
            self.lost = True
            raise
        if not os.WIFSTOPPED(status):
            raise ProcessLookupError(errno.ESRCH, "the thread died")
        return status

    def stop_again(self) -> None:
        """Lead the thread into an event stop, or, if a signal is on its way to it, into the delivery of a signal: only
        from there can its own signal be delivered."""
        thread = self._thread
        if thread.signal:
            ptrace.set_mask(thread.tid, _ALL & ~(1 << STAND_IN - 1))
            ptrace.send(self._pid, thread.tid, STAND_IN)
        else:
            ptrace.call(ptrace.INTERRUPT, thread.tid)
        while True:
            status = self._next(ptrace.CONT)
            if ptrace.is_event_stop(status) if not thread.signal else status >> 8 == STAND_IN:
                return
            self.put_off(status)

    def put_off(self, status: int) -> None:
        """Note a signal that has arrived, to be sent again afterwards: as all are blocked, it is SIGSTOP. A fault is
        the kernel's answer to the instruction that the thread executes, and would come again. Raises TargetError
        `not-our-call` for a fault."""
        if status >> 16:
            return
        number = os.WSTOPSIG(status)
        if number in _FAULTS:
            self.leave_code_of_files()
            raise not_our_call(self.tid, f"is sent {signal.Signals(number).name} where gilk has it make a system call")
        self.late.append(number)


def _is_answer(found: ptrace.Registers, asked: ptrace.Registers) -> bool:
    """Whether the thread is at the end of the very call that was asked for: no other instruction was there, and no
    other thread has changed the arguments."""
    same = all(getattr(found, name) == getattr(asked, name) for name in _ARGUMENTS)
    return same and found.orig_rax == asked.orig_rax and found.rip == asked.rip


@contextlib.contextmanager
def remote(world: PtracedThreads, memory: ProcessMemory) -> Iterator[Remote]:
    """Borrow a thread of a stopped process to make system calls; at the end it is back in a stop of the same kind,
    unchanged.

    Raises PermissionError when a seccomp filter might kill it for a system call, TargetError `busy` when it does not
    come back.
    """
    thread = world.worker
    with seccomp.suspended(thread.tid, world.options), _borrowed(thread, world, memory) as borrowed:
        yield borrowed


@contextlib.contextmanager
def _borrowed(thread: Thread, world: PtracedThreads, memory: ProcessMemory) -> Iterator[Remote]:
    rseq.abort(thread, memory)
    mask = ptrace.get_mask(thread.tid)
    borrowed = Remote(thread, world.pid, memory, mask)
    try:
        try:
            yield borrowed
        finally:
            with contextlib.suppress(ProcessLookupError):
                borrowed.stop_again()
                ptrace.set_mask(thread.tid, mask)
                ptrace.set_registers(thread.tid, thread.registers)
                thread.dirty = False
                for number in borrowed.late:
                    ptrace.send(world.pid, thread.tid, number)
                borrowed.put_back()
    except ptrace.Late:
        world.give_up(thread, mask)
        raise TargetError(
            "busy",
            f"thread {thread.tid} of process {world.pid} does not come back from a system call",
            "it goes on where it was as soon as it does",
        ) from None


def _gate(pid: int, memory: ProcessMemory) -> int:
    """The address of a ``syscall`` instruction, which is searched for only once: the vdso stays where it is."""
    if not memory.gate or memory.read(memory.gate, 2) != _SYSCALL:
        if memory.has_gone:
            raise program_gone(pid)
        memory.gate = find_syscall(read_maps(pid), memory)
    return memory.gate
