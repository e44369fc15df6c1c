# SPDX-License-Identifier: LGPL-2.1-or-later
"""A whole session of a D program: what it needs is opened, it runs until something ends it, and all is taken out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import field
from functools import cached_property, partial
from typing import TYPE_CHECKING

from gilk.engines.dtrace import libraries, verbose
from gilk.engines.dtrace.acting import Acting, Formatted
from gilk.engines.dtrace.aggregated import Aggregated
from gilk.engines.dtrace.compiled import Compiled, ProgramText, compile_programs
from gilk.engines.dtrace.enabling import Enabled, enable
from gilk.engines.dtrace.kernel_names import KernelNames
from gilk.engines.dtrace.names import Names
from gilk.engines.dtrace.outlet import Outlet
from gilk.engines.dtrace.renamed import Renamed
from gilk.engines.dtrace.symbols import SymbolNames
from gilk.engines.dtrace.tracing import Engine, Happening
from gilk.engines.dtrace.world import SymbolContext
from gilk.errors import OutOfMemory, UsageError
from gilk.lang.d import tree
from gilk.lang.d.macros import Macros
from gilk.lang.d.meaning.world import World
from gilk.lang.d.options import Options
from gilk.lang.d.probes import DProbe
from gilk.lang.d.reliance import ProbeStability, ProgramStability
from gilk.lang.syntax.source import Source
from gilk.targets.jit_map import JitMap
from gilk.trace.d.events import Began, Ended, Event, Exited, Lowered, Matched, Noted, Refused, Snapshot
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.engines.dtrace.in_process import ProcessPart
    from gilk.engines.dtrace.machine import OtherMachine
    from gilk.session.broker.opened import OpenedLibraries
    from gilk.targets.base import Loaded
    from gilk.targets.kernel.target import KernelTarget
    from gilk.targets.process import Process
    from gilk.targets.unseen import Unseen

_SIZES = ("bufsize", "aggsize", "dynvarsize", "specsize")
_SMALLEST = 4096
_LEAST = 16  # bytes: DTrace's smallest record,
_LEAST_BUFFER = 60  # and with what the kernel has before one in a buffer
_LONGEST = 0.1  # seconds between looks at signals and at the process


@dataclass
class Consumer:
    """``compile`` first, then ``start`` and ``events``."""

    texts: Sequence[ProgramText]
    macros: Macros
    options: Options
    process: Process | None = None
    library_directories: tuple[str, ...] = ()
    machine: OtherMachine | None = None  # in whose kernel the program runs; then there is no process
    known: World | None = None  # all that the compiler asks, if somebody has asked before
    compiled: Compiled = field(init=False)
    enabled: Enabled = field(init=False)
    tracing: Engine = field(init=False)
    symbols: SymbolNames = field(init=False)
    restored: bool | None = None  # at the end: whether the process is what it was; None without one
    _unseen: Unseen | None = None
    _as_asked: Options = field(init=False)  # before pragmas, and before setopt()
    _images: tuple[Loaded, ...] = ()  # that the process had when the program was compiled
    _openings: dict[int, OpenedLibraries] = field(default_factory=dict)  # by the number of the process
    _opened: list[str] = field(default_factory=list)  # sentences about libraries of those that have ended
    _aggregated: Aggregated | None = None  # once events are asked for
    _lowered: dict[str, int] = field(default_factory=dict)  # options that say more than there was memory for

    def compile(self, listing: bool = False) -> None:
        """``listing``: descriptions may match nothing. Raises DoesNotCompile, NoSuchProbe."""
        self._as_asked = deepcopy(self.options)
        self._images = self.process.loaded() if self.process is not None else ()
        self._open_later()
        self.compiled = compile_programs(self.texts, self.macros, self.options, self.world, self._libraries())
        self.enabled = self._enable(listing or self.options.flag("zdefs"))

    def _enable(self, zero: bool) -> Enabled:
        self._open_later()  # a pragma may have said so
        there = None if self.machine is None else self.machine.traced
        return enable(self.compiled.program, self.process, zero, there)

    def _open_later(self) -> None:
        if self.machine is not None:
            self.machine.users.open_later(self.options.text("opened").split("\n")[:-1])

    @cached_property
    def world(self) -> World:
        if self.known is not None:
            return self.known
        if self.machine is None:
            return SymbolContext(self.process)
        from gilk.engines.dtrace.kernel_world import KernelWorld  # here: few programs are about a kernel

        return KernelWorld(self.machine.target, self.machine.users)

    @property
    def _kernel(self) -> KernelTarget | None:
        return None if self.machine is None else self.machine.target

    def _libraries(self, process: Process | None = None) -> list[Source]:
        """``process``: the one that they tell of, if it is not the consumer's. Raises UsageError."""
        if self.options.flag("nolibs"):
            return []
        own = libraries.OWN if self._kernel is None else libraries.OF_KERNELS
        directory = self.options.text("libdir")
        directories = (*self.library_directories, *([directory] if directory else []))
        return libraries.wanted([text.source.text for text in self.texts], directories, process or self.process, own)

    @property
    def has_room(self) -> bool:
        """Whether the sizes of buffers that were asked for hold anything at all."""
        program = self.compiled.program
        keyed = any(each.keys is not None and each.scope == "global" for each in program.variables)
        used = {"bufsize": True, "aggsize": bool(program.aggregations), "dynvarsize": keyed}
        least = {"bufsize": _LEAST_BUFFER}
        return all(self.options.number(name) >= least.get(name, _LEAST) for name, asked in used.items() if asked)

    @property
    def matched(self) -> list[Matched]:
        """How many probes each program is about."""
        origins = list(enumerate(self.compiled.origins, 1))
        return [
            Matched(text.kind, text.said, sum(self.enabled.counts[n] for n, origin in origins if origin is text))
            for text in self.texts
        ]

    def probe_stability(self, probe: DProbe) -> ProbeStability:
        """How far one may rely on a probe (-v)."""
        return verbose.of_probe(self.compiled, probe)

    def program_stability(self, text: ProgramText) -> ProgramStability:
        """How far one may rely on a program (-v)."""
        return verbose.of_program(self.compiled, text)

    def start(self) -> list[Refused | Lowered]:
        """Put the probes in, fire BEGIN, let a launched program run. Returns what could not be had as it was
        asked for."""
        self.symbols = SymbolNames(self.process, JitMap(self.process.pid) if self.process is not None else None)
        self.tracing = self._tracing()
        self.tracing.begin()
        if self.process is not None:
            self._watch(self.process)
            self._watch_libraries(0, self.process, self._images, self.process.unstarted)
            self.process.release()
        if self.machine is not None:
            self.machine.release()
        refused = (Refused(probe, reason) for probe, reason in self.tracing.refused)
        return [*refused, *(Lowered(option, size) for option, size in self._lowered.items())]

    def _watch(self, process: Process) -> None:
        """Begin to look at what the process begins."""
        from gilk.targets.unseen import Unseen  # here: a program without a process need not wait for it

        self._unseen = Unseen(process.pid)

    # Libraries that are opened later.

    def _watch_libraries(self, number: int, process: Process, known: Sequence[Loaded], launched: bool) -> None:
        """Have the probes in of those that the process opens, if there may be some. Raises TargetError."""
        from gilk.engines.dtrace.opened import LaterDProbes, patterns  # here: a program without a process needs neither
        from gilk.session.broker.opened import OpenedLibraries

        names = patterns(self.compiled.program, process, self._renamed(process))
        probes = LaterDProbes(self.tracing, number, process, self._compiled_for)
        opened = OpenedLibraries(process, names, probes)
        if opened.begin(self.tracing.clock, known, launched):
            self._openings[number] = opened

    def _renamed(self, process: Process) -> Renamed:
        """How probes of a process go by the names that the program has."""
        return Renamed()

    def _compiled_for(self, process: Process, code: Process) -> tuple[tree.Program, Enabled]:
        """The D program by the types and symbols of a process, enabled in ``code``: that, or some of its images. Raises
        GilkError, DoesNotCompile."""
        named = self._renamed(process)
        world = SymbolContext(process, named.first)
        options = deepcopy(self._as_asked)
        compiled = compile_programs(self.texts, self.macros, options, world, self._libraries(process))
        return compiled.program, enable(compiled.program, code, zero=True, known=self.enabled, renamed=named)

    def _stop_watching(self, number: int) -> None:
        """No thread of that process is held any more. Raises TargetError."""
        opened = self._openings.pop(number, None)
        if opened is not None:
            opened.close()
            self._opened += [*opened.remarks, *opened.lacking]

    def _tracing(self) -> Engine:
        """With bufresize=auto what there is no memory for is made smaller. Raises UsageError `buffers-too-large`."""
        while True:
            try:
                if self.machine is not None:
                    return self._engine_there(self.machine.target)
                return self._engine()
            except (OSError, ValueError, OutOfMemory) as error:
                largest = max(_SIZES, key=self.options.number)
                size = self.options.number(largest) // 2
                if self.options.text("bufresize") == "manual" or size < _SMALLEST:
                    raise UsageError("buffers-too-large", f"{largest} is more memory than there is") from error
                self.options.set(largest, str(size))
                self._lowered[largest] = size

    def _engine(self) -> Engine:
        traced = None if self.process is None else (self.process, partial(joined, self.process))
        return Engine(self.compiled.program, self.enabled, self.options, traced)

    def _engine_there(self, target: KernelTarget) -> Engine:
        from gilk.engines.dtrace.kernel_engine import KernelEngine  # here: few programs are about a kernel

        return KernelEngine(self.compiled.program, self.enabled, self.options, target, self.world)

    def events(self, stop: Callable[[], bool], outlet: Outlet, formatted: Formatted) -> Iterator[Event]:
        """All that comes after `start`, as it is asked for: what actions want done is done as their turn comes.

        It goes on until exit(), until the process has ended, a buffer is full (fill), or ``stop`` says so; then
        all is taken out, END fires, and what was not printed of the aggregations is there.
        """
        acting = self._acting(outlet, formatted)
        yield Began(None if self.process is None else self.process.pid)
        for happening in self.happenings(stop):
            yield from acting.act(happening)
        yield Ended()
        yield from acting.aggregated.left()
        yield from map(Noted, self._remarks())
        yield from self.tracing.corruptions()  # once more, when all has been looked at
        self.tracing.close()
        yield Exited(1 if self.restored is False else self.exit_status, self.restored)

    def _remarks(self) -> list[str]:
        """The things that the user is to know at the end."""
        unseen = self._unseen.remark if self._unseen is not None else ""
        lacking = self.compiled.left_out.items()
        left_out = [f"the library {name} was left out: the {what} is not here" for name, what in lacking]
        said = [*left_out, *self.tracing.notes, *self.symbols.remarks, *self._opened]
        return [*said, *([unseen] if unseen else [])]

    def _acting(self, outlet: Outlet, formatted: Formatted) -> Acting:
        names = Names(self.tracing.processes or self.symbols, self.options, KernelNames(self._kernel))
        known, live = self.tracing.known, self.tracing.aggregations
        self._aggregated = Aggregated(known, live, self.options, names)
        return Acting(self.options, names, self._aggregated, outlet, formatted)

    def contents(self) -> list[Snapshot]:
        """The aggregations while the program goes on: for who is asked by `events` whether to stop."""
        return [] if self._aggregated is None else self._aggregated.now()

    def happenings(self, stop: Callable[[], bool]) -> Iterator[Happening]:
        """The records of clauses, and what went wrong, until all is taken out; no action is carried out."""
        yield from self._run(stop)
        yield from self._drain()
        self.restored = self._take_out()
        yield from self._left()  # what END records has room then, however busy the process was
        self.tracing.end()
        yield from self._left()
        yield from self._losses()

    def _take_out(self) -> bool | None:
        if self._openings:
            self.tracing.silence()  # else some that come now would be missing
        for number in list(self._openings):
            self._stop_watching(number)
        return self.tracing.take_out()

    def _run(self, stop: Callable[[], bool]) -> Iterator[Happening]:
        tracing, options = self.tracing, self.options
        # Each has a duty and its period in ns, which may change.
        duties: tuple[tuple[Callable[[], Iterable[Happening] | None], Callable[[], int]], ...] = (
            (self._drain, lambda: options.number("switchrate")),
            (self._losses, lambda: options.number("statusrate")),
            (tracing.tend, lambda: options.number("aggrate")),
            (tracing.clean, lambda: options.number("cleanrate")),
        )
        due = [0.0] * len(duties)
        while not stop() and tracing.active and not tracing.full and self._goes_on():
            wait = tracing.fire_ticks()
            self._follow()
            if self._unseen is not None:
                self._unseen.look()
            now = time.monotonic()
            for n, (duty, rate) in enumerate(duties):
                if now >= due[n]:
                    yield from duty() or ()
                    due[n] = now + rate() / 1e9
            soonest = min(due[:-1])  # it is not worth being awake for the last
            self._rest(max(min(wait, soonest - now, _LONGEST), 0.0))

    def _rest(self, seconds: float) -> None:
        if not self._openings:
            time.sleep(seconds)
            return
        from gilk.session.broker.opened import rest  # here: as above

        rest(self._openings.values(), seconds)

    def _goes_on(self) -> bool:
        if self.machine is not None:
            return self.machine.goes_on
        if self.process is None:
            return True
        if not self.process.alive or not self.process.keeper.there:
            return False
        return not self.process.launched or self.process.wait(block=False) is None

    def _losses(self) -> Iterator[Happening]:
        """The losses, and what the process has written into gilk's own memory."""
        yield from self.tracing.losses()
        yield from self.tracing.corruptions()

    def _drain(self, final: bool = False) -> Iterator[Happening]:
        for number, happening in enumerate(self.tracing.poll(final)):
            if number == 0:  # records have all been read by now: what they are about is mapped
                self._follow()
            yield happening

    def _left(self) -> Iterator[Happening]:
        """All that is recorded, when no probe fires any more."""
        while found := list(self._drain(final=True)):
            yield from found

    def _follow(self) -> None:
        if self.tracing.follow():
            self.symbols.look()

    def leave(self) -> None:
        """Let go of processes besides the one."""

    @property
    def exit_status(self) -> int:
        """As the program says; 1 where what it says cannot be relied on."""
        return 1 if self.tracing.corrupt else self.tracing.exit_status or 0


def joined(process: Process, size: int) -> ProcessPart:
    """A part in the session that others may have parts in."""
    from gilk.session.broker.client import BrokerClient  # here: a program without a process need not wait for it

    return BrokerClient(process, size)
