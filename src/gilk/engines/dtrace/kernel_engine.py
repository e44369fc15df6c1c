# SPDX-License-Identifier: LGPL-2.1-or-later
"""The engine of a D program in a kernel, where all of its clauses run, also BEGIN, END and those of the clock."""

from __future__ import annotations

from collections.abc import Iterator

from gilk.engines.dtrace.enabling import Enabled
from gilk.engines.dtrace.environment import elsewhere
from gilk.engines.dtrace.in_kernel import InKernel
from gilk.engines.dtrace.memory_sizes import sizes
from gilk.engines.dtrace.process_names import ProcessNames
from gilk.engines.dtrace.processor import Processor
from gilk.engines.dtrace.tracing import Engine
from gilk.lang.d import tree
from gilk.lang.d.meaning.world import World
from gilk.lang.d.options import Options
from gilk.lang.d.probes import DProbe
from gilk.lang.d.unit import GLOBALS_START
from gilk.providers import own
from gilk.targets.kernel.target import KernelTarget
from gilk.trace.d.events import DropKind, Dropped
from gilk.trace.d.layout import State

_ABORTED = "processing aborted: Abort due to systemic unresponsiveness"  # DTrace's own words
_PATIENCE = 0.1  # seconds between looks at whether the program has ended


class KernelEngine(Engine):
    """A D program in the kernel ``target``. take_out() takes its probes out; close() lets go of the driver."""

    def __init__(
        self, program: tree.Program, enabled: Enabled, options: Options, target: KernelTarget, world: World
    ) -> None:
        self.program, self.enabled, self._options = program, enabled, options
        self.processes = self._seen = ProcessNames(target.link)
        self._here = InKernel(target, program, enabled, options, world)
        try:
            self._load(options)
        except BaseException:
            self._here.close()
            raise

    def _load(self, options: Options) -> None:
        self._processor = Processor(options.text("cpu"))
        self._clock = self._here.clock
        layout = sizes(self.program, options, self._here.processors, scratches=0, keyed=self._here.keeps).layout()
        self.memory = memory = self._here.load(layout, options.number("clausetime"), not options.flag("destructive"))
        memory.globals()[:GLOBALS_START] = elsewhere(self._clock, self._here.wall).ljust(GLOBALS_START, b"\0")
        memory.put_globals()
        self._attend(memory, self._here.parts, self._here.aggregations, lambda tid: False)
        self._missed = (0, 0)
        self._aborted = False
        self.text = self._here.text

    # From begin to end.

    def begin(self) -> None:
        """Put the probes in, and fire BEGIN. A probe that fires before BEGIN finds the program inactive."""
        self.refused = self._here.insert()
        self._fire_first()
        self._here.start_clocks()

    def fire_ticks(self) -> float:
        """Fire nothing, since the kernel does that; returns the seconds until the next look at the program."""
        return _PATIENCE

    @property
    def active(self) -> bool:
        self.memory.look()
        return self.memory.state is State.ACTIVE

    @property
    def _is_held(self) -> bool:
        return True

    def losses(self) -> tuple[Dropped, ...]:
        """The records lost since the last call, and how often clauses did not run at all."""
        now, before = self._here.missed, self._missed
        self._missed = now
        kinds = (DropKind.NESTED, DropKind.SHALLOW)
        grown = (Dropped(kind, 0, new - old) for kind, new, old in zip(kinds, now, before, strict=True) if new > old)
        return (*super().losses(), *grown)

    def tend(self) -> None:
        """Do nothing: a full table drops new keys, which are counted."""

    def take_out(self) -> bool | None:
        self.memory.state = State.INACTIVE
        return self._here.take_out()

    def end(self) -> None:
        self._aborted = self._here.aborted
        self.notes = [*([_ABORTED] if self._aborted else []), *self._stopped()]
        self._fire(own.END)
        self.follow()

    def _stopped(self) -> Iterator[str]:
        """Sentences about processes that clauses have stopped and that are still stopped."""
        pids, more = self._here.stopped
        for pid in pids:
            yield f"process {pid} is stopped: kill -CONT {pid} lets it go on"
        if more:
            yield "more processes were stopped than are kept in mind: ps -eo pid,stat,comm shows which"

    @property
    def corrupt(self) -> bool:
        """Whether results cannot be relied on: memory is damaged, or the program was aborted, so that counts are too
        low."""
        return super().corrupt or self._aborted

    def close(self) -> None:
        self._here.close()

    def follow(self) -> bool:
        """Ask the driver for the images of processes whose stacks were recorded. Returns False: it tells of no change
        here."""
        while (told := self._here.image()) is not None:
            self._seen.note(told)
        return False

    # Firing.

    def _fire(self, probe: DProbe, arguments: tuple[int, ...] = ()) -> None:
        if probe.number in self.enabled.clauses:
            self._here.fire(probe, arguments, probe in (own.END, own.ERROR))

    def _fires_error(self, probe: DProbe) -> bool:
        return True

    def _now(self) -> int:
        return self._here.now()
