# SPDX-License-Identifier: LGPL-2.1-or-later
"""The engine of a D program, from BEGIN to END: it yields what happens as values, in order of time."""

from __future__ import annotations

import ctypes
import heapq
import mmap
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, cast

from gilk.collector import without_collector
from gilk.engines.dtrace.enabling import Enabled
from gilk.engines.dtrace.environment import environment, in_ns
from gilk.engines.dtrace.memory_sizes import sizes
from gilk.engines.dtrace.own_registers import OwnRegisters
from gilk.engines.dtrace.processor import Processor
from gilk.engines.dtrace.shape import shape_of
from gilk.errors import GilkError, UsageError
from gilk.lang.d import tree
from gilk.lang.d.options import Options
from gilk.lang.d.probes import DProbe
from gilk.lang.d.unit import GLOBALS_START, TranslationUnit, unit
from gilk.lang.data import Aggregation
from gilk.lang.to_c.functions import RecordPart
from gilk.providers import own
from gilk.targets.threads import Gone, thread_is_gone
from gilk.toolchain.dprogram import ClauseEvent, Native, compiling
from gilk.trace import clock
from gilk.trace.d.aggregations import AggregationReader
from gilk.trace.d.drops import Drops
from gilk.trace.d.events import Corrupted, DropKind, Dropped, Faulted
from gilk.trace.d.layout import EPID_FAULT, LAYOUT_FIELDS, FaultData, State
from gilk.trace.d.memory import ProgramMemory
from gilk.trace.d.records import ClauseRecord, Records
from gilk.trace.d.recycling import Recycling
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.engines.dtrace.in_process import InProcess, Joining
    from gilk.engines.dtrace.in_tree import InTree
    from gilk.engines.dtrace.machine_sampling import MachineSampling
    from gilk.engines.dtrace.names import NamesProcesses
    from gilk.engines.dtrace.unwinding import Unwinding
    from gilk.targets.base import Loaded, Target
    from gilk.targets.processor_samples import Counted

_MOST_TOLD = 100  # how many kinds of damage to the memory are told
_MARGIN = 2_000_000  # ns: a record that is being written now may belong before one that is complete


@dataclass(frozen=True, slots=True)
class Firing:
    """A record that one clause made in one run. ``time``: ns, as D's ``timestamp``."""

    probe: DProbe
    cpu: int
    part: RecordPart
    data: bytes
    time: int = 0
    pid: int = 0
    tid: int = 0


Happening = Firing | Faulted | Dropped | Corrupted


class Engine:
    """A D program at work. ``process``: the traced process, if there is one, and how to join its session.

    ``processes``: the names in several processes, if there may be several. take_out() takes the probes out.
    """

    processes: NamesProcesses | None = None

    def __init__(
        self, program: tree.Program, enabled: Enabled, options: Options, process: tuple[Target, Joining] | None
    ) -> None:
        target = None if process is None else process[0]
        self.program, self.enabled, self._options = program, enabled, options
        self._unwinding = self._look_at(target) if target is not None and program.stacks else None
        unwind = self._unwinding.room if self._unwinding is not None else 0
        wanted = sizes(program, options, os.cpu_count() or 1, unwind)
        layout = wanted.layout()
        self._groups = enabled.groups()
        self._processor = Processor(options.text("cpu"))
        self._clock = clock.calibrate()
        self._fields = {name: int(getattr(layout, name)) for name in LAYOUT_FIELDS}
        made = self._unit(program, enabled)
        self._native: Native | None = None
        self._process = target
        self._inside: InProcess | InTree | None = None
        if process is not None:
            self._inside = self._enter(*process, layout.size, made)
        buffer = self._inside.memory if self._inside else memoryview(mmap.mmap(-1, layout.size))
        self._buffer = buffer
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        self.memory = ProgramMemory(layout, buffer)
        self.memory.initialise()
        if wanted.few_variables:
            self.memory.withhold(wanted.few_variables)
        self.memory.globals()[:GLOBALS_START] = environment(self._clock, target).ljust(GLOBALS_START, b"\0")
        if self._unwinding is not None:
            self._unwinding.place(self.memory.unwind())
        gone = target.gone if target is not None else thread_is_gone
        self._attend(self.memory, made.parts, program.aggregations, gone)
        self._recycling = Recycling(self.aggregations, self._inside.inside if self._inside is not None else set)
        self._due: list[tuple[int, int]] = []  # a heap of times in ns, each with the number of its tick
        self.text = made.text

    def _unit(self, program: tree.Program, enabled: Enabled) -> TranslationUnit:
        error = tuple(enabled.clauses.get(own.ERROR.number, ()))
        return unit(program, self._fields, enabled.groups(), enabled.names(), error)

    def _look_at(self, process: Target) -> Unwinding | None:
        """The unwind tables by which clauses walk the process's stacks."""
        from gilk.engines.dtrace.unwinding import Unwinding  # imported here: see _enter

        return Unwinding(process)

    def _enter(self, process: Target, join: Joining, size: int, made: TranslationUnit) -> InProcess | InTree:
        """The part in the process.

        Modules that put probes into processes are imported only now: this takes half a second, and programs without a
        process need none.
        """
        from gilk.engines.dtrace.in_process import InProcess

        return InProcess(process, join, size, made, self.enabled, self._groups)

    def _attend(
        self, memory: ProgramMemory, parts: Iterable[RecordPart], aggregations: Sequence[Aggregation], gone: Gone
    ) -> None:  # fmt: skip
        """Begin to read this memory. ``aggregations``: the program's, with the keys as the clauses lay them out."""
        self._parts = {part.epid: part for part in parts}
        self._gone = gone
        self._records, self._drops = Records(memory, gone), Drops(memory)
        self.known = tuple(aggregations)
        self.aggregations = AggregationReader(memory, aggregations)
        self.notes: list[str] = []  # at the end: remarks about the process for the user
        self._remarks: list[str] = []  # those that are known before
        self.refused: list[tuple[DProbe, str]] = []
        self._told: set[str] = set()
        self._sampling: MachineSampling | None = None
        self._sampled: set[DProbe] = set()
        self._registers = OwnRegisters(self.program)

    def _begin_sampling(self) -> MachineSampling | None:
        """Sample the processors, if a probe asks for that; None if none does, or gilk may not. In a process the threads
        that run are found otherwise."""
        if not self.enabled.ticks:
            return None
        from gilk.engines.dtrace.sampled import sampled  # imported here: few programs need it

        wanted = sampled(self.program, self.enabled, self._process is not None)
        return self._sampling_of(wanted) if wanted else None

    def _sampling_of(self, wanted: list[tuple[DProbe, Counted]]) -> MachineSampling | None:
        from gilk.engines.dtrace.machine_sampling import MachineSampling  # imported here, as above

        try:
            found = MachineSampling(wanted, self._clock, self._processor.asked)
        except GilkError as error:
            self._remarks.append(_without_samples(wanted, self._process is not None, str(error)))
            return None
        if self._process is None:
            self.processes = found.names
        self._sampled = {probe for probe, _ in wanted}
        return found

    # From begin to end.

    @without_collector()
    def begin(self) -> None:
        """Put the probes in, and fire BEGIN. A probe in the process that fires before BEGIN finds the program
        inactive."""
        here = any(self.enabled.fires_here(self.enabled.probes[number]) for number in self.enabled.clauses)
        with compiling(self.text) if here else nullcontext() as compiled:
            if self._inside is not None:
                self.refused = self._inside.insert(marked=self._is_keyed)
            if compiled is not None:
                self._native = Native(compiled())
        self._processor.enter()
        self._fire_first()
        self._sampling = self._begin_sampling()
        now = time.monotonic_ns()
        clock_alone = [n for n, (probe, _) in enumerate(self.enabled.ticks) if probe not in self._sampled]
        self._due = [(now + self.enabled.ticks[n][1].period, n) for n in clock_alone]
        heapq.heapify(self._due)

    def _fire_first(self) -> None:
        """Fire BEGIN, before any other probe, and let the others fire then, unless BEGIN has ended the program."""
        self.memory.state = State.BEGINNING
        self._fire(own.BEGIN)
        self.memory.look()
        if self.memory.state is State.BEGINNING:
            self.memory.state = State.ACTIVE

    # Libraries that are opened later.

    def put_later(self, number: int, program: tree.Program, enabled: Enabled) -> list[tuple[DProbe, str]]:
        """Put in the probes of images that were mapped later; returns those that are refused. ``program``: as compiled
        with these images.

        ``number``: of the process's program in a tree, 0 for a single process. Raises UsageError `types-differ`,
        TargetError.
        """
        made = self._unit(program, enabled)
        if not self._fits(program, made):
            what = "types that the D program uses are others with the library than without"
            raise UsageError("types-differ", what, "trace the process once it has the library")
        return self._part_of(number).add(made, enabled, self._is_keyed)

    def lose(self, number: int, loaded: Loaded) -> None:
        """Note that an image was unmapped. Raises TargetError."""
        self._part_of(number).lose(loaded)

    def regain(self, number: int, loaded: Loaded) -> list[tuple[DProbe, str]] | None:
        """Put the probes of an unmapped image in again, after it was mapped again; returns those that are refused, None
        if it had no probes.

        Raises as put_later().
        """
        return self._part_of(number).regain(loaded, self._is_keyed)

    def forget_image(self, number: int, loaded: Loaded) -> None:
        """Forget the probes of an unmapped image that will not come back, because its path is another file now."""
        self._part_of(number).forget(loaded)

    def _fits(self, program: tree.Program, made: TranslationUnit) -> bool:
        """Whether clauses compiled in this way agree with the present ones about memory and records."""
        return shape_of(program, made.parts) == shape_of(self.program, tuple(self._parts.values()))

    def _part_of(self, number: int) -> InProcess:
        inside = self._inside
        assert inside is not None
        return cast("InProcess", inside)

    # Firing by the clock.

    def fire_ticks(self) -> float:
        """Fire the probes that are due; returns the seconds until the next."""
        self._fire_samples()
        now = time.monotonic_ns()
        while self._due and self._due[0][0] <= now and self.active:
            when, number = self._due[0]
            probe, tick = self.enabled.ticks[number]
            if tick.samples and self._process is not None:
                self._sample(probe)
            else:
                self._fire(probe)
            late = (now - when) // tick.period  # missed firings are not made up for
            heapq.heapreplace(self._due, (when + (late + 1) * tick.period, number))
        return (self._due[0][0] - time.monotonic_ns()) / 1e9 if self._due else 1e9

    @property
    def clock(self) -> clock.Clock:
        """The clock that turns ticks into times."""
        return self._clock

    @property
    def active(self) -> bool:
        return self.memory.state is State.ACTIVE

    @property
    def exit_status(self) -> int | None:
        return self.memory.exit_status

    @property
    def full(self) -> bool:
        """Whether a buffer is full, with the policy fill."""
        return self._options.text("bufpolicy") == "fill" and self._records.full

    def poll(self, final: bool = False) -> Iterator[Happening]:
        """The records made since the last call, in order of time. ``final``: no more are being made."""
        self.aggregations.age()
        if self._options.text("bufpolicy") == "switch" or final:
            held = self._is_held and self._options.flag("temporal") and not final
            until = None if not held else self._now() - int(_MARGIN * self._clock.ticks_per_ns)
            yield from self._happenings(self._ordered(self._records.poll(until, final)))

    @property
    def _is_held(self) -> bool:
        """Whether records are held back until earlier ones cannot come any more: clauses run at any time, on several
        processors."""
        return self._inside is not None

    def _ordered(self, records: list[ClauseRecord]) -> list[ClauseRecord]:
        """The records in order of time; without the option `temporal`, processor by processor."""
        return records if self._options.flag("temporal") else sorted(records, key=lambda record: record.cpu)

    def losses(self) -> tuple[Dropped, ...]:
        """The records lost since the last call, for lack of room, and how often samples were held back."""
        return (*self._drops.look(), *(self._sampling.losses() if self._sampling is not None else ()))

    def corruptions(self) -> Iterator[Corrupted]:
        """The damage to gilk's memory found since the last call, each kind once."""
        for source in (self._records.errors, self._drops.errors, self.aggregations.errors):
            for error in source:
                if error.message not in self._told and len(self._told) < _MOST_TOLD:
                    self._told.add(error.message)
                    yield Corrupted(error.message)
            source.clear()

    @property
    def corrupt(self) -> bool:
        """Whether any damage was found."""
        return bool(self._told)

    def clean(self) -> None:
        """Give back the memory of threads that have ended."""
        self.memory.reap(self._gone)
        self.memory.forget(self._gone)

    def tend(self) -> None:
        """Recycle the cells of aggregations with keys, if it can be told which threads run clauses."""
        if self._inside is None or self._is_keyed:
            self._recycling.tend()

    @property
    def _is_keyed(self) -> bool:
        return any(one.key_size for one in self.program.aggregations)

    def silence(self) -> None:
        """Have no clause run any more, except those of END."""
        self.memory.state = State.INACTIVE

    def take_out(self) -> bool | None:
        """Take all probes out of the process; returns whether it is what it was, None if there is no process."""
        self.memory.state = State.INACTIVE
        restored = self._inside.close() if self._inside is not None else None
        self.notes = [*self._remarks, *(self._inside.notes if self._inside is not None else [])]
        if self._sampling is not None:
            self.notes += self._sampling.remarks
            self._sampling.close()
        return restored

    def end(self) -> None:
        """Fire END, when no other probe fires any more."""
        self._fire(own.END)
        self._processor.leave()

    def follow(self) -> bool:
        """Keep up with what the process maps, for walking its stacks; returns whether the mappings have changed."""
        return self._unwinding is not None and self._unwinding.follow()

    # Firing.

    def _fire(self, probe: DProbe, arguments: tuple[int, ...] = ()) -> None:
        clauses = self.enabled.clauses.get(probe.number)
        if clauses is None or self._native is None:
            return
        event = ClauseEvent(time=self._now(), thread=1 << 63 | threading.get_native_id(), probe=probe.number)
        event.cpu, event.pid, event.tid = self._processor.number, os.getpid(), threading.get_native_id()
        for number, value in enumerate(arguments):
            event.arg[number] = value & (1 << 64) - 1
        together = tuple(clauses)
        kept = self._registers.of(together)
        event.regs = ctypes.addressof(kept) if kept is not None else None
        always = probe in (own.END, own.ERROR)
        self._native.fire(self._groups.index(together), self._address, event, always)

    def _sample(self, probe: DProbe) -> None:
        """Fire a probe for each running thread of the process."""
        if self._process is None or self._native is None:
            return
        from gilk.engines.dtrace import sampling  # imported here: few programs need it

        group = self._groups.index(tuple(self.enabled.clauses[probe.number]))
        with suppress(GilkError):  # the process may have ended
            for event in sampling.events(self._process, probe, self._unwinding is not None):
                event.time = self._now()
                self._native.fire(group, self._address, event, looks=True)

    def _fire_samples(self) -> None:
        """Fire probes for the samples that the processors have taken since the last call."""
        if self._sampling is None or self._native is None:
            return
        place, pid = self.memory.globals()[:GLOBALS_START], None if self._process is None else self._process.pid
        own_one, there = bytes(place), b""
        for each in self._sampling.events(pid):
            if pid is None and each.environment != there:
                there = each.environment
                place[: len(there)] = there
            group = self._groups.index(tuple(self.enabled.clauses[each.probe.number]))
            self._native.fire(group, self._address, each.event, looks=True)
        if pid is None:
            place[:] = own_one

    def _now(self) -> int:
        return clock.sample()[0]

    # Events.

    def _happenings(self, records: list[ClauseRecord]) -> Iterator[Happening]:
        for record in records:
            probe = self.enabled.probes.get(record.probe)
            if probe is None:
                continue
            if record.epid == EPID_FAULT:
                yield from self._fault(record, probe)
            elif (part := self._parts.get(record.epid)) is not None and len(record.data) >= part.size:
                yield Firing(probe, record.cpu, part, record.data, self._time(record.tsc), record.pid, record.tid)

    def _time(self, tsc: int) -> int:
        return in_ns(self._clock, tsc)

    def _fault(self, record: ClauseRecord, probe: DProbe) -> Iterator[Happening]:
        if len(record.data) < ctypes.sizeof(FaultData):
            return
        if probe is own.ERROR:  # errors of ERROR's own clauses are only counted
            so_far = self.memory.drops[DropKind.DBLERROR]
            self.memory.drops[DropKind.DBLERROR] = so_far + 1 & (1 << 64) - 1  # the process may have overwritten it
            return
        told = FaultData.from_buffer_copy(record.data)
        clauses, clause = self.program.clauses, told.action
        if 1 <= clause <= len(clauses):  # the process may have overwritten the record
            clause = self.program.firsts[clause - 1] + clauses[clause - 1].place(probe.name) + 1
        yield Faulted(probe, clause, told.fault, told.address)
        if self._fires_error(probe):
            self._fire(own.ERROR, (0, probe.number, clause - 1, 0, told.fault, told.address))

    def _fires_error(self, probe: DProbe) -> bool:
        """Whether ERROR has yet to fire: for a clause that ran here, it has fired at once."""
        return not self.enabled.fires_here(probe)

    def close(self) -> None:
        """Let go of what is left, when everything is read."""


def _without_samples(wanted: list[tuple[DProbe, Counted]], has_process: bool, why: str) -> str:
    """The remark that probes were fired otherwise, because processors could not be sampled."""
    kinds = " and ".join(sorted({f"{probe.name.partition('-')[0]}-N" for probe, _ in wanted}))
    what = "has not known where threads are in the kernel" if has_process else "has fired in gilk alone"
    return f"{kinds} {what}: {why}"
