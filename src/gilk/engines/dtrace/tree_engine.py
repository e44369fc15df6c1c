# SPDX-License-Identifier: LGPL-2.1-or-later
"""The engine of a D program in a process and all that it starts: there is one BEGIN, one END, and one of each
variable."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from gilk.engines.dtrace import sampling
from gilk.engines.dtrace.enabling import Enabled
from gilk.engines.dtrace.environment import environment
from gilk.engines.dtrace.in_process import Joining
from gilk.engines.dtrace.in_tree import InTree, SealedMemory, TreePart
from gilk.engines.dtrace.symbols import SymbolNames
from gilk.engines.dtrace.tracing import Engine
from gilk.engines.dtrace.unwinding import Unwinding
from gilk.errors import GilkError, UsageError
from gilk.lang.d import tree
from gilk.lang.d.options import Options
from gilk.lang.d.probes import DProbe
from gilk.lang.d.unit import GLOBALS_START, TranslationUnit
from gilk.lang.runtime import Does
from gilk.targets.jit_map import JitMap
from gilk.values import dataclass

if TYPE_CHECKING:
    from pathlib import Path

    from gilk.image.model import Image
    from gilk.targets.base import Loaded, Target
    from gilk.targets.files import Files
    from gilk.targets.process import Process

_PROGRAM = 32  # the upper 32 bits of a word are the number of the program (native/runtime/d/environment.h)
_HINT = "trace its programs one by one, without --follow"


class TreeEngine(Engine):
    """A D program in a tree. ``process``: the first process, and how to join its session; `add` adds later programs."""

    _inside: InTree

    def __init__(
        self, program: tree.Program, enabled: Enabled, options: Options, process: tuple[Target, Joining]
    ) -> None:
        """Raises UsageError `cannot-follow`, TargetError."""
        self.processes = self._names = TreeNames()
        super().__init__(program, enabled, options, process)

    def _look_at(self, process: Target) -> None:
        """No tables here: each part has the unwind tables of its own process."""

    def _enter(self, process: Target, join: Joining, size: int, made: TranslationUnit) -> InTree:
        self._check_samples(made)
        inside = InTree(size)
        try:
            inside.add(0, self._part(0, process, join, inside.common, made, self.enabled))
        except BaseException:
            inside.close()
            raise
        return inside

    def _check_samples(self, made: TranslationUnit) -> None:
        """Check that no sampling probe walks stacks: its clauses run in this process, which has no process's unwind
        tables.

        Raises UsageError `cannot-follow`.
        """
        for probe, tick in self.enabled.ticks:
            if tick.counted and not tick.samples:
                raise UsageError("cannot-follow", f"with several processes, {probe.name} cannot be had", _HINT)
            if tick.samples and any(made.needs[n].does & Does.WALKS for n in self.enabled.clauses[probe.number]):
                raise UsageError("cannot-follow", f"with --follow, stacks cannot be had at {probe.name}", _HINT)

    def _part(
        self, number: int, process: Target, join: Joining, common: SealedMemory, made: TranslationUnit,
        enabled: Enabled,
    ) -> TreePart:  # fmt: skip
        unwinding = Unwinding(process) if self.program.stacks else None
        return TreePart(process, join, common, made, enabled, environment(self._clock, process, number), unwinding)

    def follow(self) -> bool:
        """Keep up with what the processes map, for walking their stacks. Returns False: their names are updated
        here."""
        for number, part in self._inside.parts.items():
            if part.unwinding is not None and part.unwinding.follow():
                self._names.look(number)
        return False

    def note(self, number: int, process: Process) -> None:
        """Note a program, so that its addresses have names from now on."""
        self._names.note(number, process)

    def add(
        self, number: int, process: Process, join: Joining, program: tree.Program, enabled: Enabled
    ) -> list[tuple[DProbe, str]]:
        """Put the probes into one more program; returns those that are refused. ``program``: the D program as compiled
        for it.

        Raises UsageError `cannot-follow`, TargetError.
        """
        made = self._unit(program, enabled)
        if not self._fits(program, made):
            what = "types that the D program uses are others here than in the first program"
            raise UsageError("cannot-follow", what, _HINT)
        part = self._part(number, process, join, self._inside.common, made, enabled)
        self._inside.add(number, part)
        try:
            return part.insert(self._is_keyed)
        except BaseException:
            self._inside.forget(number)
            raise

    def _part_of(self, number: int) -> TreePart:
        return self._inside.parts[number]

    def forget(self, number: int) -> None:
        """Forget a program that no process of the tree runs any more."""
        self._names.settle(number)
        self._inside.forget(number)

    def _sample(self, probe: DProbe) -> None:
        """Fire a probe for each running thread of all processes."""
        assert self._native is not None
        group = self._groups.index(tuple(self.enabled.clauses[probe.number]))
        here = bytes(self.memory.globals()[:GLOBALS_START])
        for part in self._inside.parts.values():
            self.memory.globals()[:GLOBALS_START] = part.environment  # clauses that run here read it there
            with suppress(GilkError):  # the process may have ended
                for event in sampling.events(part.process, probe, stacks=False):
                    event.time = self._now()
                    self._native.fire(group, self._address, event, looks=True)
        self.memory.globals()[:GLOBALS_START] = here


class TreeNames:
    """Names for addresses, by the program that has them."""

    def __init__(self) -> None:
        self._names: dict[int, SymbolNames] = {}
        self._mapped: dict[int, _Mapped] = {}  # of programs that still run
        self._none = SymbolNames(None)

    def note(self, number: int, process: Process) -> None:
        self._mapped[number] = _Mapped(process.files, process.loaded)
        self._names[number] = SymbolNames(self._mapped[number], JitMap(process.pid))

    def look(self, number: int) -> None:
        """Note that the program has mapped something new."""
        self._names[number].look()

    def settle(self, number: int) -> None:
        """Note that the program has ended: its names are kept, and it is not read again."""
        if (mapped := self._mapped.pop(number, None)) is not None:
            mapped.ask = tuple
            self._names[number].settle()

    def of(self, process: int) -> SymbolNames:
        """The names of one program. ``process``: the word by which a record or a key identifies it."""
        return self._names.get(process >> _PROGRAM, self._none)


@dataclass(slots=True)
class _Mapped:
    """The images of a program. ``ask``: returns what it has mapped at the moment."""

    files: Files
    ask: Callable[[], tuple[Loaded, ...]]

    def loaded(self) -> tuple[Loaded, ...]:
        return self.ask()

    def image(self, path: Path) -> Image:
        return self.files.image(path)
