# SPDX-License-Identifier: LGPL-2.1-or-later
"""The session of a D program: it opens what the program needs, runs it until something ends it, and takes all out."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from gilk.engines.dtrace import libraries, verbose
from gilk.engines.dtrace.acting import Acting, Formatted
from gilk.engines.dtrace.aggregated import Aggregated
from gilk.engines.dtrace.compiled import Compiled, DoesNotCompile, ProgramText, compile_programs
from gilk.engines.dtrace.enabling import Enabled, NoSuchProbe, enable
from gilk.engines.dtrace.kernel_names import KernelNames
from gilk.engines.dtrace.names import Names
from gilk.engines.dtrace.outlet import Outlet, shell_here
from gilk.engines.dtrace.renamed import Renamed
from gilk.engines.dtrace.symbols import SymbolNames
from gilk.engines.dtrace.tracing import Engine, Happening
from gilk.engines.dtrace.world import SymbolContext
from gilk.errors import GilkError, OutOfMemory, UsageError
from gilk.lang.d import tree
from gilk.lang.d.macros import Macros
from gilk.lang.d.meaning.world import World
from gilk.lang.d.options import Options
from gilk.lang.d.probes import DProbe
from gilk.lang.d.reliance import ProbeStability, ProgramStability
from gilk.lang.syntax.source import Source
from gilk.session.broker.executing import in_one_program
from gilk.targets.jit_map import JitMap
from gilk.trace.d.events import Began, Ended, Event, Exited, Lowered, Matched, Noted, Refused, Snapshot
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.engines.dtrace.in_process import ProcessPart
    from gilk.engines.dtrace.machine import MachineView, TracedMachine
    from gilk.session.broker.opened import OpenedLibraries
    from gilk.targets.base import Loaded
    from gilk.targets.kernel.target import KernelTarget
    from gilk.targets.process import Process
    from gilk.targets.unseen import Unseen

_SIZES = ("bufsize", "aggsize", "dynvarsize", "specsize")
_SMALLEST = 4096
_LEAST = 16  # bytes of the smallest record in DTrace,
_LEAST_BUFFER = 60  # and of the smallest one with the kernel's header before it in a buffer
_LONGEST = 0.1  # seconds between looks at signals and at the process


@dataclass
class Consumer:
    """A D program's session: call ``compile``, then ``start``, then ``events``."""

    texts: Sequence[ProgramText]
    macros: Macros
    options: Options
    process: Process | None = None
    library_directories: tuple[str, ...] = ()
    machine: MachineView | None = None  # the machine in whose kernel the program runs; then there is no process
    known: World | None = None  # the answers to the compiler's questions, if the caller has them
    leaving: Callable[[], AbstractContextManager[None]] = nullcontext  # probes are taken out within it
    compiled: Compiled = field(init=False)
    enabled: Enabled = field(init=False)
    tracing: Engine = field(init=False)
    symbols: SymbolNames = field(init=False)
    restored: bool | None = None  # at the end: whether the process is what it was; None without one
    _unseen: Unseen | None = None
    _as_asked: Options = field(init=False)  # options before pragmas and setopt() change them
    _images: tuple[Loaded, ...] = ()  # images of the process when the program was compiled
    _openings: dict[int, OpenedLibraries] = field(default_factory=dict)  # by the number of the program, 0 for the first
    _opened: list[str] = field(default_factory=list)  # remarks about libraries of processes that have ended
    _aggregated: Aggregated | None = None  # once events are asked for
    _is_stale: bool = False  # whether the programs were compiled for a program that the process executes no more
    _lowered: dict[str, int] = field(default_factory=dict)  # options with less than was asked for, for lack of memory

    def compile(self, listing: bool = False) -> None:
        """Compile the programs, and find their probes. ``listing``: descriptions may match nothing. Raises
        DoesNotCompile, NoSuchProbe."""
        self._as_asked = deepcopy(self.options)
        self._images = self.process.loaded() if self.process is not None else ()
        self._open_later()
        try:
            self.compiled = compile_programs(self.texts, self.macros, self.options, self.world, self.libraries())
        except DoesNotCompile as error:
            # DTrace looks for the probes of a clause before it asks what the clause means. It has those of any process.
            if error.begun is not None:
                self.compiled = Compiled(*error.begun, lambda description: ())
                self.enable(listing or self.options.flag("zdefs"), listing=True)
            raise
        self.enabled = self.enable(listing or self.options.flag("zdefs"), listing)

    def enable(self, zero: bool, listing: bool = False) -> Enabled:
        """Find the probes of a program that has been compiled, as gilk.engines.dtrace.enabling.enable() does. Raises
        NoSuchProbe."""
        self._open_later()  # a pragma may have set the option
        return enable(self.compiled.program, self.process, zero, self.there, listing=listing)

    @property
    def there(self) -> TracedMachine | None:
        """The kernel in which the program runs; None if it runs in a process."""
        return None if self.machine is None else self.machine.traced

    def _open_later(self) -> None:
        if self.machine is not None:
            self.machine.users.open_later(self.options.text("opened").split("\n")[:-1])

    @cached_property
    def world(self) -> World:
        if self.known is not None:
            return self.known
        if self.machine is None:
            return SymbolContext(self.process)
        from gilk.engines.dtrace.kernel_world import KernelWorld  # imported here: few need it

        return KernelWorld(self.machine.target, self.machine.users)

    @property
    def _kernel(self) -> KernelTarget | None:
        return None if self.machine is None else self.machine.target

    def libraries(self, process: Process | None = None) -> list[Source]:
        """The libraries that the programs need. ``process``: the process that they describe, if not the consumer's.
        Raises UsageError."""
        if self.options.flag("nolibs"):
            return []
        directory = self.options.text("libdir")
        directories = (*self.library_directories, *([directory] if directory else []))
        programs = [text.source.text for text in self.texts]
        return libraries.wanted(programs, directories, process or self.process, self.own_libraries, self.world)

    @property
    def own_libraries(self) -> Path:
        """The directory of gilk's own libraries for such a program."""
        return libraries.OWN if self.machine is None else libraries.OF_KERNELS

    @property
    def has_room(self) -> bool:
        """Whether the buffers are large enough to hold anything."""
        program = self.compiled.program
        keyed = any(each.keys is not None and each.scope == "global" for each in program.variables)
        used = {"bufsize": True, "aggsize": bool(program.aggregations), "dynvarsize": keyed}
        least = {"bufsize": _LEAST_BUFFER}
        return all(self.options.number(name) >= least.get(name, _LEAST) for name, asked in used.items() if asked)

    @property
    def matched(self) -> list[Matched]:
        """How many probes each program matches."""
        origins = list(enumerate(self.compiled.origins, 1))
        return [
            Matched(text.kind, text.said, sum(self.enabled.counts[n] for n, origin in origins if origin is text))
            for text in self.texts
        ]

    def probe_stabilities(self, probes: Iterable[DProbe]) -> Iterator[tuple[DProbe, ProbeStability]]:
        """Each probe with the stability of its name and arguments, and the variables that can be read there (-v)."""
        kernel = self.machine.target if self.machine is not None else None
        return verbose.of_probes(self.compiled, self.enabled, self.process, kernel, probes)

    def program_stability(self, text: ProgramText) -> ProgramStability:
        """The stability of a program (-v)."""
        return verbose.of_program(self.compiled, text)

    def start(self) -> list[Refused | Lowered]:
        """Put the probes in, fire BEGIN, and let a launched program run. Returns the probes that were refused, and the
        options with less memory than asked for. If the process has executed another program since ``compile``, the
        programs are compiled again for that."""
        return in_one_program(self._may_be_stopped, self._start, self._withdraw)

    @property
    def _may_be_stopped(self) -> Sequence[Process]:
        """The processes that are stopped for that."""
        return () if self.process is None else (self.process,)

    def _withdraw(self) -> None:
        """Undo what `_start` has done, and have it compile the programs first when it is called again."""
        for opened in self._openings.values():
            with contextlib.suppress(GilkError):
                opened.close()
        self._openings.clear()
        tracing: Engine | None = self.__dict__.pop("tracing", None)
        if tracing is not None:
            with contextlib.suppress(GilkError):
                tracing.take_out()
            tracing.close()
        self._is_stale = True

    def _compile_anew(self) -> None:
        """Compile the programs for what the process executes now. Raises GilkError."""
        self.__dict__.pop("world", None)
        try:
            self.compile()
        except (DoesNotCompile, NoSuchProbe) as error:
            why = f"the process has executed another program: {error}"
            raise UsageError("no-such-probe", why) from None

    def _start(self) -> list[Refused | Lowered]:
        if self._is_stale:
            self._compile_anew()
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
        """Begin to look for processes and programs that the process starts."""
        from gilk.targets.unseen import Unseen  # imported here: not all need it

        self._unseen = Unseen(process.pid)

    # Libraries that are opened later.

    def _watch_libraries(self, number: int, process: Process, known: Sequence[Loaded], launched: bool) -> None:
        """Watch for libraries that the process opens, and put their probes in, if any may have some. Raises
        TargetError."""
        from gilk.engines.dtrace.opened import LaterDProbes, patterns  # imported here: not all need it
        from gilk.session.broker.opened import OpenedLibraries

        names = patterns(self.compiled.program, process, self._renamed(process))
        probes = LaterDProbes(self.tracing, number, process, self._compiled_for)
        opened = OpenedLibraries(process, names, probes)
        if opened.begin(self.tracing.clock, known, launched):
            self._openings[number] = opened

    def _renamed(self, process: Process) -> Renamed:
        """The mapping of names of probes between the process and the program text."""
        return Renamed()

    def _compiled_for(self, process: Process, code: Process) -> tuple[tree.Program, Enabled]:
        """The D program compiled with the types and symbols of a process, and enabled in ``code``: the process, or some
        of its images. Raises GilkError, DoesNotCompile."""
        named = self._renamed(process)
        world = SymbolContext(process, named.first)
        options = deepcopy(self._as_asked)
        compiled = compile_programs(self.texts, self.macros, options, world, self.libraries(process))
        return compiled.program, enable(compiled.program, code, zero=True, known=self.enabled, renamed=named)

    def _stop_watching(self, number: int) -> None:
        """Hold no thread of that process any more. Raises TargetError."""
        opened = self._openings.pop(number, None)
        if opened is not None:
            opened.close()
            self._opened += [*opened.remarks, *opened.lacking]

    def _tracing(self) -> Engine:
        """The engine. With bufresize=auto, sizes are halved until there is enough memory. Raises UsageError
        `buffers-too-large`."""
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
        from gilk.engines.dtrace.kernel_engine import KernelEngine  # imported here: few need it

        return KernelEngine(self.compiled.program, self.enabled, self.options, target, self.world)

    def events(self, stop: Callable[[], bool], outlet: Outlet, formatted: Formatted) -> Iterator[Event]:
        """The events after `start`, as they are asked for; an action is carried out in its turn.

        They go on until exit(), the end of the process, a full buffer with the policy fill, or until ``stop`` returns
        True. Then all probes are taken out, END fires, and the aggregations that were not printed follow.
        """
        acting = self._acting(outlet, formatted)
        yield Began(None if self.process is None else self.process.pid)
        for happening in self.happenings(stop):
            yield from acting.act(happening)
        yield Ended()
        yield from acting.aggregated.left()
        yield from map(Noted, self._remarks())
        yield from self.tracing.corruptions()  # again, now that everything has been read
        self.tracing.close()
        yield Exited(1 if self.restored is False else self.exit_status, self.restored)

    def _remarks(self) -> list[str]:
        """The remarks for the user at the end."""
        unseen = self._unseen.remark if self._unseen is not None else ""
        lacking = self.compiled.left_out.items()
        left_out = [f"the library {name} was left out: the {what} is not here" for name, what in lacking]
        said = [*left_out, *self.tracing.notes, *self.symbols.remarks, *self._opened]
        return [*said, *([unseen] if unseen else [])]

    def _acting(self, outlet: Outlet, formatted: Formatted) -> Acting:
        names = Names(self.tracing.processes or self.symbols, self.options, KernelNames(self._kernel))
        known, live = self.tracing.known, self.tracing.aggregations
        self._aggregated = Aggregated(known, live, self.options, names)
        shell = shell_here if self.machine is None else self.machine.shell
        return Acting(self.options, names, self._aggregated, outlet, formatted, shell)

    def contents(self) -> list[Snapshot]:
        """The present contents of the aggregations; the ``stop`` function of `events` may call this."""
        return [] if self._aggregated is None else self._aggregated.now()

    def happenings(self, stop: Callable[[], bool]) -> Iterator[Happening]:
        """The records of clauses, losses and damage, until all is taken out. No action is carried out."""
        yield from self._run(stop)
        yield from self._drain()
        with self.leaving():
            self.restored = self._take_out()
        yield from self._left()  # makes room for what END records, however busy the process was
        self.tracing.end()
        yield from self._left()
        yield from self._losses()

    def _take_out(self) -> bool | None:
        if self._openings:
            self.tracing.silence()  # else records of the probes that are removed first would be missing
        for number in list(self._openings):
            self._stop_watching(number)
        return self.tracing.take_out()

    def _run(self, stop: Callable[[], bool]) -> Iterator[Happening]:
        tracing, options = self.tracing, self.options
        # Each duty has a period in ns, which may change.
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
            soonest = min(due[:-1])  # the last duty is not worth waking up for
            self._rest(max(min(wait, soonest - now, _LONGEST), 0.0))

    def _rest(self, seconds: float) -> None:
        if not self._openings:
            time.sleep(seconds)
            return
        from gilk.session.broker.opened import rest  # imported here, as above

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
        """The losses of records, and the damage that the process has done to gilk's memory."""
        yield from self.tracing.losses()
        yield from self.tracing.corruptions()

    def _drain(self, final: bool = False) -> Iterator[Happening]:
        for number, happening in enumerate(self.tracing.poll(final)):
            if number == 0:  # all records have been read, and their code is still mapped
                self._follow()
            yield happening

    def _left(self) -> Iterator[Happening]:
        """The remaining records, when no probe fires any more."""
        while found := list(self._drain(final=True)):
            yield from found

    def _follow(self) -> None:
        if self.tracing.follow():
            self.symbols.look()

    def leave(self) -> None:
        """Let go of the processes besides the first."""

    @property
    def exit_status(self) -> int:
        """The exit status that the program has set; 1 if its results cannot be relied on."""
        return 1 if self.tracing.corrupt else self.tracing.exit_status or 0


def joined(process: Process, size: int) -> ProcessPart:
    """A part in the session of the process, in which others may have parts."""
    from gilk.session.broker.client import BrokerClient  # imported here: not all need it

    return BrokerClient(process, size)
