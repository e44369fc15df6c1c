# SPDX-License-Identifier: LGPL-2.1-or-later
"""A D program at work in a process and in all that it begins: there is one BEGIN, one END, and one of each variable."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from gilk.engines.dtrace import sampling
from gilk.engines.dtrace.enabling import Enabled
from gilk.engines.dtrace.environment import environment
from gilk.engines.dtrace.in_process import Joining
from gilk.engines.dtrace.in_tree import InTree, TreePart
from gilk.engines.dtrace.symbols import SymbolNames
from gilk.engines.dtrace.tracing import Engine
from gilk.errors import GilkError, UsageError
from gilk.lang.d import tree
from gilk.lang.d.options import Options
from gilk.lang.d.probes import DProbe
from gilk.lang.d.unit import GLOBALS_START, TranslationUnit
from gilk.lang.to_c.functions import RecordPart
from gilk.lang.types import size_of
from gilk.values import dataclass

if TYPE_CHECKING:
    from pathlib import Path

    from gilk.image.model import Image
    from gilk.targets.base import Loaded, Target
    from gilk.targets.files import Files
    from gilk.targets.process import Process

_PROGRAM = 32  # the upper half of a word is the number of the program (native/runtime/d/program.h)
_HINT = "trace its programs one by one, without --follow"


class TreeEngine(Engine):
    """``process``: the first of them, and how to have a part in its session; `add` is for those that come later."""

    _inside: InTree

    def __init__(
        self, program: tree.Program, enabled: Enabled, options: Options, process: tuple[Target, Joining]
    ) -> None:
        """Raises UsageError `cannot-follow`, TargetError."""
        if program.stacks:
            raise UsageError("cannot-follow", "ustack() and jstack() are about one process: --follow is not", _HINT)
        self.processes = self._names = TreeNames()
        super().__init__(program, enabled, options, process)
        self._shape = _shape(program, tuple(self._parts.values()))

    def _enter(self, process: Target, join: Joining, size: int, made: TranslationUnit) -> InTree:
        inside = InTree(size)
        try:
            inside.add(0, TreePart(process, join, inside.common, made, self.enabled, environment(self._clock, process)))
        except BaseException:
            inside.close()
            raise
        return inside

    def note(self, number: int, process: Process) -> None:
        """Addresses of this program have names from now on."""
        self._names.note(number, process)

    def add(
        self, number: int, process: Process, join: Joining, program: tree.Program, enabled: Enabled
    ) -> list[tuple[DProbe, str]]:
        """Put the probes of one more program in; those that are refused. ``program``: as it is compiled for that.

        Raises UsageError `cannot-follow`, TargetError.
        """
        made = self._unit(program, enabled)
        if _shape(program, made.parts) != self._shape:
            what = "types that the D program uses are others here than in the first program"
            raise UsageError("cannot-follow", what, _HINT)
        about = environment(self._clock, process, number)
        part = TreePart(process, join, self._inside.common, made, enabled, about)
        self._inside.add(number, part)
        try:
            return part.insert(self._is_keyed)
        except BaseException:
            self._inside.forget(number)
            raise

    def forget(self, number: int) -> None:
        """Nobody runs this program any more."""
        self._inside.forget(number)

    def _sample(self, probe: DProbe) -> None:
        """For each thread that runs, of all processes."""
        assert self._native is not None
        group = self._groups.index(tuple(self.enabled.clauses[probe.number]))
        here = bytes(self.memory.globals()[:GLOBALS_START])
        for part in self._inside.parts:
            self.memory.globals()[:GLOBALS_START] = part.environment  # only what runs here looks there
            with suppress(GilkError):  # it may have ended
                for event in sampling.events(part.process, probe, stacks=False):
                    event.time = self._now()
                    self._native.fire(group, self._address, event, looks=True)
        self.memory.globals()[:GLOBALS_START] = here


class TreeNames:
    """Names for addresses, by the program that they are of."""

    def __init__(self) -> None:
        self._names: dict[int, SymbolNames] = {}
        self._none = SymbolNames(None)

    def note(self, number: int, process: Process) -> None:
        self._names[number] = SymbolNames(_Mapped(process.files, process.loaded()))

    def of(self, process: int) -> SymbolNames:
        """The names of one program, by the word that a record or a key tells of it with."""
        return self._names.get(process >> _PROGRAM, self._none)


@dataclass(frozen=True, slots=True)
class _Mapped:
    """A program as it was when it began."""

    files: Files
    mapped: tuple[Loaded, ...]

    def loaded(self) -> tuple[Loaded, ...]:
        return self.mapped

    def image(self, path: Path) -> Image:
        return self.files.image(path)


def _shape(program: tree.Program, parts: tuple[RecordPart, ...]) -> object:
    """The places of everything in the memory, and in records: the same in all programs, or their clauses would take one
    thing for another."""
    variables = [
        (one.name, one.scope, one.offset, one.number, size_of(one.type, program.strsize),
         [size_of(key, program.strsize) for key in one.keys or ()])
        for one in program.variables
    ]  # fmt: skip
    sizes = program.globals_size, program.this_size, program.strsize
    return variables, sizes, program.aggregations, parts
