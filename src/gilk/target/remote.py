# SPDX-License-Identifier: LGPL-2.1-or-later
"""System calls made by a stopped thread of the target on our behalf.

The thread's registers and signal mask are what they were when it goes on, and
a system call it was in is restarted by the kernel as after any stop: the last
stop is an event stop again, whence the kernel looks at ``orig_rax``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from collections.abc import Iterator, Sequence

from gilk.errors import TargetError
from gilk.target import ptrace, rseq, seccomp
from gilk.target.call_list import MOST, STAND_IN, Call, CallList
from gilk.target.maps import Mapping, read_maps
from gilk.target.memory import Memory
from gilk.target.world import Thread, World

_SYSCALL = b"\x0f\x05"
_ALL = (1 << 64) - 1
RT_SIGACTION = 13
MMAP, MUNMAP, MREMAP, MADVISE, CLOSE, MEMFD_CREATE = 9, 11, 25, 28, 3, 319
_MREMAP_MAYMOVE, _MREMAP_FIXED = 1, 2
_PROT_READ, _PROT_WRITE, _PROT_EXEC = 1, 2, 4
_MAP_SHARED, _MAP_PRIVATE, _MAP_ANONYMOUS, _MAP_NOREPLACE = 1, 2, 0x20, 0x100000
#: Wishes. Where the kernel itself puts so large a mapping, just below the libraries, it is in the way of their puns.
_CODE_AT, _DATA_AT, _RECORD_AT = 0x2000_0000_0000, 0x2100_0000_0000, 0x2180_0000_0000
MADV_DONTDUMP, MADV_WIPEONFORK = 16, 18
_MFD_CLOEXEC, _MFD_ALLOW_SEALING, _MFD_EXEC = 1, 2, 0x10


def find_syscall(maps: tuple[Mapping, ...], memory: Memory) -> int:
    """The address of a ``syscall`` instruction; the vdso has one, else any code will do."""
    for mapping in sorted(
        (m for m in maps if m.executable and m.path != "[vsyscall]"), key=lambda m: m.path != "[vdso]"
    ):
        with contextlib.suppress(OSError):
            at = memory.read(mapping.start, mapping.end - mapping.start).find(_SYSCALL)
            if at >= 0:
                return mapping.start + at
    raise TargetError("no-syscall", "the process has no system call instruction to use")


class Remote:
    """Runs system calls in ``thread``, which is in a ptrace stop."""

    def __init__(self, thread: Thread, memory: Memory, gate: int) -> None:
        self._thread = thread
        self._memory = memory
        self._gate = gate
        self.late: list[int] = []

    def call(self, number: int, *arguments: int) -> int:
        """The result; raises OSError when the call failed, ProcessLookupError when the thread died."""
        registers = self._thread.registers.copy()
        registers.rip, registers.rax, registers.orig_rax = self._gate, number, _ALL
        for name, value in zip(("rdi", "rsi", "rdx", "r10", "r8", "r9"), arguments, strict=False):
            setattr(registers, name, value & _ALL)
        tid = self._thread.tid
        ptrace.set_registers(tid, registers)
        for _ in ("entry", "exit"):
            self._to_system_call(tid)
        result = int(ptrace.get_registers(tid).rax)
        if result > _ALL - 4096:
            code = _ALL + 1 - result
            raise OSError(code, os.strerror(code))
        return result

    def many(self, place: CallList, calls: Sequence[Call]) -> list[int]:
        """Results of calls, which the thread makes by itself, until one fails: -errno is then the last.

        Raises ProcessLookupError when the thread died.
        """
        results: list[int] = []
        for part in (calls[at : at + MOST] for at in range(0, len(calls), MOST)):
            results += self._by_itself(place, part)
            if results[-1] < 0:
                break
        return results

    def _by_itself(self, place: CallList, calls: Sequence[Call]) -> list[int]:
        place.write(self._memory, calls)
        tid, registers = self._thread.tid, self._thread.registers.copy()
        registers.rip, registers.rbx, registers.r12, registers.orig_rax = place.loop, place.page, len(calls), _ALL
        ptrace.set_registers(tid, registers)
        ptrace.set_mask(tid, _ALL & ~(1 << STAND_IN - 1))
        while True:
            ptrace.call(ptrace.CONT, tid, 0, 0)
            status = ptrace.wait(tid)
            if not os.WIFSTOPPED(status):
                raise ProcessLookupError(errno.ESRCH, "the thread died")
            if status >> 8 == STAND_IN and ptrace.get_registers(tid).rip == place.end:
                break
            self.put_off(status)
        ptrace.set_mask(tid, _ALL)
        return place.results(self._memory, len(calls))

    def _to_system_call(self, tid: int) -> None:
        """Run to the next entry into, or exit from, a system call. Stops that were still due come before it."""
        while True:
            ptrace.call(ptrace.SYSCALL, tid, 0, 0)
            status = ptrace.wait(tid)
            if not os.WIFSTOPPED(status):
                raise ProcessLookupError(errno.ESRCH, "the thread died")
            if ptrace.is_syscall_stop(status):
                return
            self.put_off(status)

    def put_off(self, status: int) -> None:
        """A signal that arrives although all are blocked is SIGSTOP: it is sent again afterwards."""
        if not status >> 16:
            self.late.append(os.WSTOPSIG(status))

    def anonymous(self, address: int, size: int) -> int:
        flags = _MAP_PRIVATE | _MAP_ANONYMOUS | (_MAP_NOREPLACE if address else 0)
        return self.call(MMAP, address, size, _PROT_READ | _PROT_WRITE, flags, -1, 0)

    def code(self, size: int, fd: int) -> int:
        """Map all of ``fd`` readable and executable, away from any code."""
        return self.call(MMAP, _CODE_AT, size, _PROT_READ | _PROT_EXEC, _MAP_SHARED, fd, 0)

    def again(self, source: int, size: int, address: int) -> None:
        """Map what lies at ``source``, of a shared mapping, also at ``address``, which must be free.

        mremap(2) with an old size of 0: no file descriptor has to stay open in the target, which may close any.
        """
        self.call(MREMAP, source, 0, size, _MREMAP_MAYMOVE | _MREMAP_FIXED, address)

    def data(self, size: int, fd: int, at: int = _DATA_AT) -> int:
        """``at``: a wish."""
        return self.call(MMAP, at, size, _PROT_READ | _PROT_WRITE, _MAP_SHARED, fd, 0)

    def record(self, size: int, fd: int) -> int:
        """As data, but each process has its own, after a fork too."""
        return self.call(MMAP, _RECORD_AT, size, _PROT_READ | _PROT_WRITE, _MAP_PRIVATE, fd, 0)

    def unmap(self, address: int, size: int) -> None:
        self.call(MUNMAP, address, size)

    def handlers(self, signals: list[int]) -> list[tuple[int, int, int]]:
        """(handler, flags, restorer) of each signal: struct kernel_sigaction without its mask."""
        page = self.anonymous(0, 4096)
        found = []
        try:
            for number in signals:
                self.call(RT_SIGACTION, number, 0, page, 8)
                found.append(struct.unpack("<QQQ", self._memory.read(page, 24)))
        finally:
            self.unmap(page, 4096)
        return found

    def memory_file(self, name: str) -> int:
        """memfd_create(2) in the target; its file descriptor there. Executable where that must be asked for (6.3)."""
        page = self.anonymous(0, 4096)
        try:
            self._memory.write(page, name.encode() + b"\0")
            try:
                return self.call(MEMFD_CREATE, page, _MFD_CLOEXEC | _MFD_ALLOW_SEALING | _MFD_EXEC)
            except OSError:
                return self.call(MEMFD_CREATE, page, _MFD_CLOEXEC | _MFD_ALLOW_SEALING)
        finally:
            self.unmap(page, 4096)


@contextlib.contextmanager
def remote(world: World, memory: Memory) -> Iterator[Remote]:
    """Borrow a thread of a stopped process; it is back in a stop of the same kind, unchanged, at the end.

    Raises PermissionError when a system call might be the end of it.
    """
    thread = world.worker
    with seccomp.suspended(thread.tid), _borrowed(thread, world.pid, memory) as borrowed:
        yield borrowed


@contextlib.contextmanager
def _borrowed(thread: Thread, pid: int, memory: Memory) -> Iterator[Remote]:
    gate = _gate(pid, memory)
    rseq.abort(thread, memory)
    mask = ptrace.get_mask(thread.tid)
    ptrace.set_mask(thread.tid, _ALL)
    borrowed = Remote(thread, memory, gate)
    try:
        yield borrowed
    finally:
        with contextlib.suppress(ProcessLookupError):
            _stop_again(thread, pid, borrowed)
            ptrace.set_registers(thread.tid, thread.registers)
            thread.dirty = False
            ptrace.set_mask(thread.tid, mask)
            for number in borrowed.late:
                ptrace.send(pid, thread.tid, number)


def _gate(pid: int, memory: Memory) -> int:
    """Looked for once: the vdso stays where it is."""
    if not memory.gate or memory.read(memory.gate, 2) != _SYSCALL:
        memory.gate = find_syscall(read_maps(pid), memory)
    return memory.gate


def _stop_again(thread: Thread, pid: int, borrowed: Remote) -> None:
    """Into an event stop, or into the delivery of a signal if it was in one: only from there is it passed on."""
    if thread.signal:
        ptrace.set_mask(thread.tid, _ALL & ~(1 << STAND_IN - 1))
        ptrace.send(pid, thread.tid, STAND_IN)
    else:
        ptrace.call(ptrace.INTERRUPT, thread.tid)
    while True:
        ptrace.call(ptrace.CONT, thread.tid, 0, 0)
        status = ptrace.wait(thread.tid)
        if not os.WIFSTOPPED(status):
            raise ProcessLookupError(errno.ESRCH, "the thread died")
        if ptrace.is_event_stop(status) if not thread.signal else status >> 8 == STAND_IN:
            return
        borrowed.put_off(status)
