# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether a process's own filters of system calls (seccomp(2)) let its threads make the calls that a hit needs.

A thread asks the kernel for its numbers at its first hit. The filters are programs of classic BPF, which the kernel
gives to whoever may suspend them; here they are run for these calls.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct

from gilk.errors import TargetError
from gilk.targets import ptrace, seccomp

_STEP = struct.Struct("<HBBI")  # struct sock_filter
_DATA = struct.Struct("<II7Q")  # struct seccomp_data; it is read by words of 32 bits
_X86_64 = 0xC000003E  # AUDIT_ARCH_X86_64
_NEEDED = (39, 186)  # getpid, gettid
_MOST_STEPS = 4096
_WORD = 0xFFFF_FFFF
#: The actions that let a thread go on, with the call made or refused: ALLOW, LOG, TRACE, ERRNO.
_HARMLESS = frozenset([0x7FFF_0000, 0x7FFC_0000, 0x7FF0_0000, 0x0005_0000])
_ACTION = 0xFFFF_0000


def check_hits(pid: int) -> None:
    """Check that no thread of the process would be stopped for the system calls of its first hit.

    Raises TargetError `seccomp-blocks-hits`, and `already-traced`, `no-permission`, `busy` where a filter cannot be
    read.
    """
    if not seccomp.may_kill(pid):
        return
    for tid in ptrace.thread_ids(pid):
        if _stops(tid):
            raise TargetError(
                "seccomp-blocks-hits",
                f"thread {tid} of process {pid} has a seccomp filter that stops it for getpid(2) or gettid(2)",
                "the program can be instrumented before it installs its filter: gilk launches it with -c",
            )


def _stops(tid: int) -> bool:
    with contextlib.suppress(OSError):
        mode = seccomp.filters(tid).mode
        if mode in (0, seccomp.STRICT):
            return mode == seccomp.STRICT
        programs = _programs(tid)
        return any(answer(one, number) & _ACTION not in _HARMLESS for one in programs for number in _NEEDED)
    return False  # it has ended meanwhile


def _programs(tid: int) -> list[bytes]:
    """The filters of a thread, which is stopped for a moment. Raises TargetError, OSError."""
    ptrace.seize(tid)
    number = 0
    try:
        ptrace.call(ptrace.INTERRUPT, tid)
        status = ptrace.wait(tid)
        number = 0 if ptrace.is_event_stop(status) else os.WSTOPSIG(status)
        return [_program(tid, n) for n in range(seccomp.filters(tid).count)]
    except ptrace.Late:  # it is let go when this process ends
        hint = "it waits in vfork or for a disk; try again"
        raise TargetError("busy", f"thread {tid} does not stop to have its filters read", hint) from None
    except PermissionError:
        return []  # who may not read filters may not suspend them either, and is refused for that
    finally:
        with contextlib.suppress(ProcessLookupError):
            ptrace.call(ptrace.DETACH, tid, 0, number)


def _program(tid: int, index: int) -> bytes:
    room = ctypes.create_string_buffer(_MOST_STEPS * _STEP.size)
    steps = ptrace.call(ptrace.SECCOMP_GET_FILTER, tid, index, ctypes.addressof(room))
    return room.raw[: steps * _STEP.size]


def answer(program: bytes, number: int) -> int:
    """The value that a filter returns for the system call ``number`` without arguments; 0, which kills, for one that
    the kernel would not take."""
    data = _DATA.pack(number, _X86_64, *(0,) * 7)
    machine, at = _Machine(data), 0
    steps = list(_STEP.iter_unpack(program))
    while at < len(steps):
        code, yes, no, value = steps[at]
        if code & 7 == 6:  # RET
            return machine.a if code & 0x10 else value
        at += 1 + machine.step(code, yes, no, value)
    return 0


class _Machine:
    """The registers and the memory of a filter that runs."""

    def __init__(self, data: bytes) -> None:
        self.a = self.x = 0
        self._data, self._memory = data, [0] * 16

    def step(self, code: int, yes: int, no: int, value: int) -> int:
        """Carry out a step; returns how many steps are skipped after it."""
        kind = code & 7
        operand = self.x if code & 8 and kind in (4, 5) else value
        if kind in (0, 1):
            found = self._loaded(code, value)
            self.a, self.x = (found, self.x) if kind == 0 else (self.a, found)
        elif kind in (2, 3):
            self._memory[value & 15] = self.a if kind == 2 else self.x
        elif kind == 4:
            self.a = self._computed(code & 0xF0, operand) & _WORD
        elif kind == 7:
            self.a, self.x = (self.x, self.x) if code & 0x80 else (self.a, self.a)
        elif code & 0xF0 == 0:
            return value  # JA
        else:
            return yes if self._holds(code & 0xF0, operand) else no
        return 0

    def _loaded(self, code: int, value: int) -> int:
        match code & 0xE0:
            case 0x20:
                return int.from_bytes(self._data[value : value + 4], "little")
            case 0x60:
                return self._memory[value & 15]
            case 0x80:
                return len(self._data)
        return value

    def _holds(self, test: int, operand: int) -> bool:
        match test:
            case 0x10:
                return self.a == operand
            case 0x20:
                return self.a > operand
            case 0x30:
                return self.a >= operand
        return bool(self.a & operand)

    def _computed(self, how: int, operand: int) -> int:
        a = self.a
        match how:
            case 0x00:
                return a + operand
            case 0x10:
                return a - operand
            case 0x20:
                return a * operand
            case 0x30:
                return a // operand if operand else 0
            case 0x40:
                return a | operand
            case 0x50:
                return a & operand
            case 0x60:
                return a << operand if operand < 32 else 0
            case 0x70:
                return a >> operand if operand < 32 else 0
            case 0x80:
                return -a
        return a ^ operand
