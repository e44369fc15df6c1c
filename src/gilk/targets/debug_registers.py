# SPDX-License-Identifier: LGPL-2.1-or-later
"""The processor's debug registers, set by perf_event_open(2) for all threads of a process.

The kernel gives new threads the same registers before their first instruction, and takes them all away when the process
executes another program, and when the owner of the descriptors ends, however it ends. Registers that a tracer sets
(PTRACE_POKEUSER) would outlive it. At each access the thread is sent SIGTRAP when the instruction is done.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import threading
from collections.abc import Collection

from gilk.errors import TargetError
from gilk.targets import ptrace
from gilk.values import dataclass

MOST = 4
TRAP_PERF = 6  # si_code
ASYNCHRONOUS = 1  # si_perf_flags: SIGTRAP was blocked
_PERF_EVENT_OPEN, _CLOSE_ON_EXEC = 298, 8
_BREAKPOINT, _WRITES, _ACCESSES = 5, 2, 3
_ATTRIBUTES = struct.Struct("<II5QII10Q")  # struct perf_event_attr
_INHERIT, _NO_KERNEL, _NO_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_ONLY_THREADS, _NOT_AFTER_EXEC, _SIGTRAP = 1 << 35, 1 << 36, 1 << 37
_FLAGS = _INHERIT | _NO_KERNEL | _NO_HYPERVISOR | _ONLY_THREADS | _NOT_AFTER_EXEC | _SIGTRAP
_INFO = struct.Struct("<iii4xQQII")  # the beginning of siginfo_t, where the kernel reports an event
_NUMBERS = 8  # bits
_IN_USE = "all that the processor has are in use: by a debugger, by perf, or by another weaving"
_NOT_PERMITTED = "the system does not permit them (perf_event_paranoid, or a container)"
_WHY = {
    **dict.fromkeys((errno.ENOSPC, errno.EBUSY), _IN_USE),
    **dict.fromkeys((errno.EACCES, errno.EPERM), _NOT_PERMITTED),
    errno.EMFILE: "gilk may not open a file for each thread (ulimit -n)",
}
_OTHERWISE = "the kernel, or the machine, does not have them for this: Linux 5.13 and later do"

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class WatchedPiece:
    """Aligned bytes that one register watches: 1, 2, 4 or 8. ``read`` and ``write``: the addresses of the sites
    (native/abi/gilk_access.h) of the advice on reads and on writes; 0: there is no such advice."""

    address: int
    size: int
    read: int
    write: int


def refused(why: str) -> TargetError:
    return TargetError("no-debug-registers", why, "without `debugreg`, gilk looks for the accesses in code")


class DebugRegisters:
    """The debug registers of all threads of a process, one for each piece."""

    def __init__(self, pieces: Collection[WatchedPiece], tids: Collection[int]) -> None:
        """Set the registers of threads, which have to stand still. Raises TargetError `no-debug-registers`; then none
        is set."""
        self._mark = int.from_bytes(os.urandom(7), "little") << _NUMBERS  # in the signals, to know them from others
        self._opened: list[list[int]] = []
        self._count = len(pieces)
        try:
            for number, piece in enumerate(pieces):
                self._opened.append([])
                for tid in tids:
                    self._open(number, piece, tid)
        except OSError as error:
            self.close()
            why = f"there is no debug register for {piece.address:#x}: {_WHY.get(error.errno or 0, _OTHERWISE)}"
            raise refused(why) from None

    def _open(self, number: int, piece: WatchedPiece, tid: int) -> None:
        kind = _ACCESSES if piece.read else _WRITES
        attributes = _ATTRIBUTES.pack(
            _BREAKPOINT, _ATTRIBUTES.size, 0, 1, 0, 0, _FLAGS, 0, kind, piece.address, piece.size,
            0, 0, 0, 0, 0, 0, self._mark | number, 0,
        )  # fmt: skip
        descriptor = int(_libc.syscall(_PERF_EVENT_OPEN, attributes, tid, -1, -1, _CLOSE_ON_EXEC))
        if descriptor >= 0:
            self._opened[number].append(descriptor)
        elif ctypes.get_errno() != errno.ESRCH:  # the thread has been killed
            raise OSError(ctypes.get_errno(), "")

    def of(self, info: ptrace.SignalInfo) -> tuple[int, bool] | None:
        """The number of the piece whose access a SIGTRAP tells, and whether the thread had blocked the signal, and so
        has gone on since; None if the signal is another's."""
        _, _, code, _, mark, _, flags = _INFO.unpack_from(bytes(info))
        number = mark & (1 << _NUMBERS) - 1
        if code != TRAP_PERF or mark - number != self._mark or number >= self._count:
            return None
        return number, bool(flags & ASYNCHRONOUS)

    def counts(self) -> list[int]:
        """How many accesses of each piece the processor has counted so far, in all threads."""
        return [sum(map(_count, descriptors)) for descriptors in self._opened]

    def close(self) -> None:
        """Free the registers, in all threads."""
        for descriptor in (each for one in self._opened for each in one):
            os.close(descriptor)
        self._opened = []


def free_registers() -> tuple[int, str]:
    """How many debug registers a thread that has none can have now, of the processor's `MOST`; and the reason why it
    can have no more, or "". It cannot be known who has the others."""
    room = (ctypes.c_uint64 * MOST)()
    pieces = [WatchedPiece(ctypes.addressof(room) + 8 * each, 8, 0, 1) for each in range(MOST)]
    why = ""
    for count in range(MOST, 0, -1):
        try:
            DebugRegisters(pieces[:count], [threading.get_native_id()]).close()
        except TargetError as error:
            why = error.message.partition(": ")[2]
        else:
            return count, why
    return 0, why


def _count(descriptor: int) -> int:
    return int.from_bytes(os.read(descriptor, 8), "little")
