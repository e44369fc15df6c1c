# SPDX-License-Identifier: LGPL-2.1-or-later
"""Samples of whatever the machine's processors run, by perf_event_open(2): on each processor the kernel counts an
event, and writes a sample each time that so many have happened. No process is stopped, nor changed.

The layout of attributes, of rings and of records is that of linux/perf_event.h.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter

from gilk.errors import TargetError
from gilk.targets.topology import online
from gilk.values import dataclass

_libc = ctypes.CDLL(None, use_errno=True)
_PERF_EVENT_OPEN, _CLOSE_ON_EXEC = 298, 8
_ATTRIBUTES = struct.Struct("<II5Q2I4QIiQIH2x2I")  # struct perf_event_attr up to aux_sample_size: 112 + 8 bytes
_IP, _TID, _TIME, _CPU, _REGISTERS = 1, 2, 4, 1 << 7, 1 << 12
_NO_USER, _NO_KERNEL, _NO_HYPERVISOR, _NAMES, _TASKS = (1 << bit for bit in (4, 5, 6, 9, 13))
_ALL_TIMED, _EXECS, _GIVEN_CLOCK = (1 << bit for bit in (18, 24, 25))
#: Numbers of PERF_REG_X86: those of the general registers, of the address and of the flags.
_KEPT = 0x3FF | 0xFF << 16
_COUNT = _KEPT.bit_count()
#: Where each of struct gilk_regs (native/include/gilk.h) is among the registers of a sample.
_ORDER = (0, 2, 3, 1, 7, 6, 4, 5, *range(10, 18), 8, 9)
_HEAD, _TAIL = 1024, 1032  # of struct perf_event_mmap_page
_RECORD = struct.Struct("<IHH")  # struct perf_event_header
_SAMPLE = struct.Struct("<QIIQII")
_IDENTITY = struct.Struct("<IIQII")  # at the end of all records but samples: process, thread, time, processor
_LOST, _NAMED, _THROTTLED, _FORKED, _SAMPLED = 2, 3, 5, 7, 9
_MODES, _KERNEL, _USER = 7, 1, 2
_BY_EXEC = 1 << 13  # the bit of a name's record that says that the process executes another program
_PAGE = 4096
_RING = 128 * _PAGE  # bytes of a ring, besides its head
_ENDED = 4096  # how many names of processes are kept


@dataclass(frozen=True, slots=True)
class Counted:
    """An event that processors count: its type and number in linux/perf_event.h, and ``period``, after how many a
    sample is taken. ``user`` and ``kernel``: whether it counts in programs, and in the kernel. ``everywhere``: whether
    it counts on all processors, or on the first alone."""

    type: int
    number: int
    period: int
    user: bool = True
    kernel: bool = True
    everywhere: bool = True


@dataclass(frozen=True, slots=True)
class ProcessorSample:
    """A sample of a processor. ``time``: ns of CLOCK_MONOTONIC. ``pid`` and ``tid`` are 0 if it is idle.
    ``kernel``: the address in the kernel, 0 if it runs a program; ``user``: the address in the program, 0 if it is in
    the kernel. ``registers``: the program's, in the order of struct gilk_regs; () for a thread of the kernel.
    ``name``: of the process at that time, if the kernel has told it since the start, else b"". ``program`` counts the
    programs that the process has executed since."""

    time: int
    which: int
    cpu: int
    pid: int
    tid: int
    kernel: int
    user: int
    registers: tuple[int, ...] = ()
    name: bytes = b""
    program: int = 0


class ProcessorSamples:
    """The samples of some events. ``lost``: how many found no room so far. ``names``: of processes, as the kernel told
    them since the start. ``throttled``: how often so far the kernel has held back the samples of a processor, by its
    number, because they came faster than it permits (perf_event_max_sample_rate)."""

    def __init__(self, events: list[Counted], processor: int | None = None) -> None:
        """Begin. ``processor``: on this one alone. Raises TargetError `cannot-sample` if the system does not permit it,
        or has no such event."""
        self.lost = 0
        self.names: dict[int, bytes] = {}
        self.throttled: Counter[int] = Counter()
        self._programs: dict[int, int] = {}  # how many a process has executed, for those in ``names``
        self._later: list[tuple[int, int, int, int, int, bytes]] = []  # records for the next call, with their times
        self._rings: list[tuple[int, int, _Ring]] = []
        try:
            for which, event in enumerate(events):
                for cpu in (online() if event.everywhere else online()[:1]) if processor is None else [processor]:
                    self._rings.append((which, cpu, _Ring(event, cpu)))
        except OSError as error:
            self.close()
            what = f"the processors cannot be sampled: {error.strerror}"
            raise TargetError("cannot-sample", what, "root may, and who has CAP_PERFMON") from None

    def take(self) -> list[ProcessorSample]:
        """The samples since the last call, in order of time. ``which`` is the number of the event, from 0."""
        until = time.monotonic_ns()  # a ring that is read later has samples whose names came to one that has been read
        found = [(_time(*record), which, cpu, *record) for which, cpu, ring in self._rings for record in ring.records()]
        found = sorted((*self._later, *found), key=itemgetter(0))  # those of one ring keep their order
        self._later = [each for each in found if each[0] > until]
        due = found[: len(found) - len(self._later)]
        return [sample for each in due if (sample := self._understood(*each[1:]))]

    def close(self) -> None:
        for _, _, ring in self._rings:
            ring.close()
        self._rings = []

    def _understood(self, which: int, cpu: int, kind: int, mode: int, content: bytes) -> ProcessorSample | None:
        """The sample of a record; None for a record of another kind, of which note is taken."""
        if kind == _SAMPLED:
            made = _sample(which, cpu, mode & _MODES, content)
            return replace(made, name=self.names.get(made.pid, b""), program=self._programs.get(made.pid, 0))
        if kind == _LOST:
            self.lost += int(struct.unpack_from("<8xQ", content)[0])
            self.names.clear()  # newer names may be among what is lost
            self._programs.clear()
        elif kind == _THROTTLED:
            self.throttled[cpu] += 1
        elif kind in (_NAMED, _FORKED):
            pid, other = struct.unpack_from("<II", content)
            self._named(kind, mode, pid, other, content[8:].partition(b"\0")[0])
        return None

    def _named(self, kind: int, mode: int, pid: int, other: int, name: bytes) -> None:
        """Note a name. ``other``: the thread that has it, or the parent of a process that begins."""
        if kind == _FORKED:
            if other in self.names and pid != other:
                self._name(pid, self.names[other], 0)
        elif pid == other:
            self._name(pid, name, self._programs.get(pid, 0) + bool(mode & _BY_EXEC))

    def _name(self, pid: int, name: bytes, program: int) -> None:
        self.names.pop(pid, None)
        self.names[pid], self._programs[pid] = name, program
        if len(self.names) > _ENDED:
            oldest = next(iter(self.names))
            del self.names[oldest], self._programs[oldest]


def _time(kind: int, _mode: int, content: bytes) -> int:
    """The time of a record, in ns of CLOCK_MONOTONIC."""
    if kind == _SAMPLED:
        return int(_SAMPLE.unpack_from(content)[3])
    return int(_IDENTITY.unpack_from(content, len(content) - _IDENTITY.size)[2])


def can_count(event: Counted) -> bool:
    """Whether this machine counts such events, for who asks."""
    with suppress(OSError):
        os.close(_opened(event, online()[0]))
        return True
    return False


def _opened(event: Counted, cpu: int) -> int:
    """The descriptor of an event on a processor. Raises OSError."""
    kinds = _IP | _TID | _TIME | _CPU | _REGISTERS
    flags = _NAMES | _EXECS | _TASKS | _ALL_TIMED | _GIVEN_CLOCK | _NO_HYPERVISOR
    flags |= _NO_USER * (not event.user) | _NO_KERNEL * (not event.kernel)
    monotonic = 1
    attributes = _ATTRIBUTES.pack(
        event.type, _ATTRIBUTES.size, event.number, event.period, kinds, 0, flags, 0, 0, 0, 0, 0,
        _KEPT, 0, monotonic, 0, 0, 0, 0, 0,
    )  # fmt: skip
    descriptor = int(_libc.syscall(_PERF_EVENT_OPEN, attributes, -1, cpu, -1, _CLOSE_ON_EXEC))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return descriptor


class _Ring:
    """The ring into which the kernel writes the records of one event on one processor."""

    def __init__(self, event: Counted, cpu: int) -> None:
        """Begin to count. Raises OSError."""
        self._descriptor = _opened(event, cpu)
        try:
            self._memory = mmap.mmap(self._descriptor, _PAGE + _RING)
        except OSError:
            os.close(self._descriptor)
            raise

    def records(self) -> Iterator[tuple[int, int, bytes]]:
        """The kind, the mode and the content of each record since the last call."""
        (head,), (tail,) = (struct.unpack_from("<Q", self._memory, at) for at in (_HEAD, _TAIL))
        while head - tail >= _RECORD.size:
            kind, mode, size = _RECORD.unpack(self._bytes(tail, _RECORD.size))
            if not _RECORD.size <= size <= head - tail:
                tail = head  # it is no record
                break
            yield kind, mode, self._bytes(tail + _RECORD.size, size - _RECORD.size)
            tail += size
        struct.pack_into("<Q", self._memory, _TAIL, tail)

    def _bytes(self, start: int, size: int) -> bytes:
        at = start % _RING
        found = self._memory[_PAGE + at : _PAGE + min(at + size, _RING)]
        return found + self._memory[_PAGE : _PAGE + size - len(found)]

    def close(self) -> None:
        self._memory.close()
        os.close(self._descriptor)


def _sample(which: int, cpu: int, mode: int, content: bytes) -> ProcessorSample:
    place, pid, tid, time, _, _ = _SAMPLE.unpack_from(content)
    at, registers = _SAMPLE.size, ()
    if struct.unpack_from("<Q", content, at)[0]:
        given = struct.unpack_from(f"<{_COUNT}Q", content, at + 8)
        registers = tuple(given[number] for number in _ORDER)
    kernel, user = place * (mode == _KERNEL), place * (mode == _USER)
    return ProcessorSample(time, which, cpu, pid, tid, kernel, user, registers)
