# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes that fire for whatever the processors of this machine run: events for clauses, with the environment of the
process that a sample is of, and names of addresses in all processes that samples were of."""

from __future__ import annotations

import ctypes
import os
import struct
import time
from collections import Counter
from collections.abc import Iterator

from gilk.engines.dtrace.environment import environment
from gilk.engines.dtrace.symbols import SymbolNames
from gilk.lang.d.probes import DProbe
from gilk.targets.jit_map import JitMap
from gilk.targets.processor_samples import Counted, ProcessorSample, ProcessorSamples
from gilk.targets.sampled_process import SampledProcess, SharedImages
from gilk.toolchain.dprogram import ClauseEvent
from gilk.trace.clock import Clock
from gilk.trace.d.events import DropKind, Dropped
from gilk.values import dataclass

_KNOWN_FOR = 1.0  # seconds
_UNKNOWN = b"<unknown>"  # the name of a process that has ended, or that is in another PID namespace
_MOST = 4096  # processes whose environments are kept


@dataclass(frozen=True, slots=True)
class SampleEvent:
    """A firing of a probe. ``event`` is valid until the next firing. ``environment``: of the process."""

    probe: DProbe
    event: ClauseEvent
    environment: bytes


class MachineSampling:
    """The probes that samples of the processors fire, each with its event. ``names``: of addresses."""

    def __init__(self, probes: list[tuple[DProbe, Counted]], clock: Clock, processor: int | None) -> None:
        """Begin. ``processor``: on this one alone. Raises TargetError `cannot-sample`."""
        self._probes, self._clock = [probe for probe, _ in probes], clock
        self._samples = ProcessorSamples([event for _, event in probes], processor)
        self._environments: dict[tuple[int, int, bytes], tuple[float, bytes]] = {}
        self._throttled: Counter[int] = Counter()
        self.names = MachineNames()

    def events(self, pid: int | None = None) -> Iterator[SampleEvent]:
        """The firings since the last call, in order of time. ``pid``: of this process alone, if it is given."""
        for one in self._samples.take():
            if pid is None or pid == one.pid:
                if one.user:
                    self.names.note(one.pid, one.user)
                kept = ctypes.create_string_buffer(struct.pack(f"<{len(one.registers)}Q", *one.registers))
                event = ClauseEvent(thread=_identity(one), probe=self._probes[one.which].number)
                event.regs = ctypes.addressof(kept) if one.registers else None
                event.time = self._clock.to_tsc(one.time)
                event.cpu, event.pid, event.tid = one.cpu, one.pid, one.tid
                event.arg[0], event.arg[1] = one.kernel, one.user
                yield SampleEvent(self._probes[one.which], event, self._environment(one))

    def losses(self) -> tuple[Dropped, ...]:
        """How often the kernel has held back samples since the last call, by processor."""
        grown = self._samples.throttled - self._throttled
        self._throttled = self._samples.throttled.copy()
        return tuple(Dropped(DropKind.THROTTLED, cpu, count) for cpu, count in sorted(grown.items()))

    @property
    def remarks(self) -> list[str]:
        """Remarks for the user at the end."""
        lost = self._samples.lost
        return [f"{lost} samples of the processors came faster than they were taken, and are lost"] if lost else []

    def close(self) -> None:
        self._samples.close()

    def _environment(self, sample: ProcessorSample) -> bytes:
        """The environment of the process, no older than a second. If the process has ended, little but its name is
        known. Its name is that of the time of the sample, which the process may have changed since."""
        idle = not sample.pid and not sample.registers
        number, now = (sample.pid or (-sample.cpu - 1 if idle else 0), sample.program, sample.name), time.monotonic()
        made, known = self._environments.get(number, (-_KNOWN_FOR, b""))
        if now - made < _KNOWN_FOR:
            return known
        name = b"swapper/%d" % sample.cpu if idle else sample.name or _UNKNOWN
        process = SampledProcess(sample.pid, SharedImages(), name, named=bool(sample.name))
        if not known or process.alive:
            known = environment(self._clock, process)
        if len(self._environments) >= _MOST:
            self._environments.clear()
        self._environments[number] = now, known
        return known


def _identity(sample: ProcessorSample) -> int:
    """The identity of the thread by which thread-local variables are kept. Idle processors have gilk's number, which
    lasts as long as the variables, below their own."""
    return 1 << 63 | (sample.tid or sample.cpu + 1 << 32 | os.getpid())


class MachineNames:
    """The names of addresses in the processes that samples were of, also when these have ended."""

    def __init__(self) -> None:
        self._images, self._none = SharedImages(), SymbolNames(None)
        self._known: dict[int, tuple[SampledProcess, SymbolNames]] = {}
        self._generating: set[int] = set()

    def note(self, pid: int, address: int) -> None:
        """Look at what the process has mapped, unless that is known: it may have ended when names are asked for."""
        if pid not in self._known:
            process = SampledProcess(pid, self._images)
            self._known[pid] = process, SymbolNames(process)
        process, names = self._known[pid]
        if process.has(address) or not process.is_due:
            return
        names.look()
        if not process.has(address) and pid not in self._generating:
            self._generating.add(pid)
            self._known[pid] = process, SymbolNames(process, JitMap(pid))

    def of(self, process: int) -> SymbolNames:
        """The names of the process of that number."""
        return self._known[process][1] if process in self._known else self._none
