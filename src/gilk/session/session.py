# SPDX-License-Identifier: LGPL-2.1-or-later
"""The session that has a process for itself: a set of probes, and their results."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from gilk.errors import GilkError, TargetError
from gilk.session.base import Probe
from gilk.session.entry import Entry
from gilk.session.ledger import Ledger
from gilk.session.onward import OnwardCalls
from gilk.session.plan_cache import PlanCache
from gilk.session.probing import ProbingSession
from gilk.session.request import Builtin, CFunction, GoesOn, ValuesAt, Wanted
from gilk.session.signals import Signals
from gilk.session.staging import ChangeResult
from gilk.session.stream import ALL_CLASSES, Bounds
from gilk.splice.instrument import Count, Instrument, Stamp, StampWithArguments, StampWithValues
from gilk.splice.onward import SIZE
from gilk.splice.plan import FunctionPlan, Want
from gilk.splice.planner import PatchContext
from gilk.targets.base import Target
from gilk.targets.batch import Batch
from gilk.targets.stack_switching import switches_stacks
from gilk.targets.workspace import Workspace
from gilk.toolchain.instrument import CompiledObject, compile_instrument
from gilk.trace.clock import Clock, calibrate
from gilk.trace.drain import Drain
from gilk.trace.layout import PAGE, Geometry

_MOST_POINTS = 1 << 20
#: Each batch with its units that are in force.
InForce = list[tuple[Batch, frozenset[int]]]


class Session(ProbingSession):
    """A set of probes in one process. Use it as a context manager; at its end all probes are gone from the target.

    ``points``: how many counting probes there can be in all. ``threads``: how many threads can have buffers at a time.
    ``ring``: bytes of a thread's buffer per record class. ``clock``: the clock for the times of samples; if None, it is
    measured.
    """

    _workspace_type: type[Workspace] = Workspace

    def __init__(
        self,
        process: Target,
        points: int = 1 << 18,
        threads: int = 1024,
        ring: int = 4 << 20,
        clock: Clock | None = None,
        private: int = 0,
    ) -> None:
        """``private``: bytes of additional memory for the session's C, which knows it as ``gilk_private``.

        Raises TargetError, also `seccomp-blocks-hits`.
        """
        process.check_hits()
        geometry = Geometry.plan(min(points, _MOST_POINTS), set(ALL_CLASSES), threads, ring)
        rings = tuple((ring.offset, ring.size) for ring in geometry.rings)
        self.process = process
        self._private_at = geometry.size
        onward = _pages(geometry.size + private)
        self._workspace = self._workspace_type(
            process, geometry.blocks, onward + _pages(SIZE), PAGE, rings, geometry.size, onward
        )
        geometry.initialise(memoryview(self._workspace.data))
        known = process.threads
        super().__init__(Drain(geometry, self._workspace.data), clock or calibrate(), known, geometry.counters)
        self._stream.bounds = Bounds()
        self._ledger = Ledger(self._workspace, process.keeper, cache=PlanCache(self._workspace))
        self._stream.meet(process.pid, process.own_number)
        self._keeps_everything = False
        self._shown: tuple[list[Batch], InForce] = [], []
        self._signals = Signals(process, self._workspace)
        self._onward = OnwardCalls(process, self._workspace, process.keeper.peek)
        if switches_stacks(process):
            process.keeper.search_stacks()
        self._compiled: dict[CFunction, CompiledObject] = {}

    @property
    def code(self) -> Target:
        return self.process

    def insert_wanted(self, wanted: list[Wanted], active: bool = True) -> tuple[Probe, ...]:
        with self._numbered(wanted) as numbers:
            planned = {number: w for number, w in zip(numbers, wanted, strict=True) if w.refusal is None}
            wants = [self._want(number, w) for number, w in planned.items()]
            wants = self._onward.with_others(planned.keys(), list(planned.values()), wants, self._ledger.entry)
            if active:
                result = self._add(wants + self._handlers())
            else:
                self._add(self._handlers())
                result = self._ledger.add(wants, active=False)
        self._know(result.outcome.total)
        self._note(result.outcome, len(numbers))
        self._outcomes(self._settled(result), list(planned))
        return self._refuse_unplanned(wanted, numbers)

    def _settled(self, result: ChangeResult) -> tuple[FunctionPlan, ...]:
        """The plans of a change, after those that have become necessary by refusals of other places than probes."""
        plans = result.plans
        while again := self._onward.lose(result.refusals):
            result = self._ledger.add(again)
            plans += result.plans
        return plans

    def _add(self, wants: list[tuple[Entry, Want]]) -> ChangeResult:
        with self._signals.unless_it_fails():
            result = self._put(wants)
        self._signals.settle()
        unbalanced = self._signals.unbalanced(result)
        if unbalanced:
            self._ledger.remove(unbalanced)
        return result

    def _put(self, wants: list[tuple[Entry, Want]]) -> ChangeResult:
        return self._ledger.add(wants)

    def _handlers(self) -> list[tuple[Entry, Want]]:
        """The wants of handlers that are new. From the first on, the session shows the runtime which original code its
        patches stand for."""
        wants = self._signals.wants(self._ledger.entry) if self._signals.changed() else []
        if wants and self._signals.faults() and not self._keeps_everything:
            self._workspace.save_everything()
            with self._signals.unless_it_fails():
                self._ledger.save_everything()
            self._keeps_everything = True
        if wants:
            self._ledger.on_change = self._show_places
        return wants

    def _show_places(self) -> None:
        batches, in_force = self._ledger.batches, self._in_force()
        if _identity(batches, in_force) != _identity(*self._shown):
            chosen = [batch.only(set(units)) for batch, units in in_force]
            self._workspace.show_places(batches, chosen)
            self._shown = batches, in_force

    def _in_force(self) -> InForce:
        return self._ledger.in_force

    def remove(self, probes: Iterable[Probe]) -> None:
        numbers = self._numbers(probes)
        if numbers:
            result = self._ledger.remove(numbers)
            self._drop(numbers)
            self._outcomes(self._settled(result), range(0))

    def _switch(self, numbers: list[int], on: bool) -> None:
        if on:
            result = self._ledger.activate({*numbers, *self._onward.along(numbers)})
        else:
            result = self._ledger.deactivate(numbers)
        self._note(result.outcome, 0)
        self._outcomes(self._settled(result), range(0))

    def _want(self, number: int, wanted: Wanted) -> tuple[Entry, Want]:
        ground = self._workspace.ground(wanted.loaded, self.process.analysis(wanted.loaded))
        entry = self._ledger.entry(ground, wanted.function)
        made = self._instrument(ground, wanted.planned, number)
        return entry, Want(wanted.point.address, wanted.point.after, made, number)

    def _instrument(
        self, ground: PatchContext, chosen: Builtin | CFunction | ValuesAt | GoesOn, number: int
    ) -> Instrument:  # fmt: skip
        match chosen:
            case Builtin.COUNT:
                return Count(number)
            case Builtin.STAMP | Builtin.TIME | GoesOn():
                return Stamp(number + 1)
            case Builtin.ARGS:
                return StampWithArguments(number + 1)
            case Builtin.REGS:
                return self._workspace.registers(ground, number + 1)
            case ValuesAt(places=places):
                return StampWithValues(number + 1, places)
            case CFunction():
                return self._workspace.calls(ground, self._compile(chosen))(number + 1)

    def _compile(self, chosen: CFunction) -> CompiledObject:
        if chosen not in self._compiled:
            self._compiled[chosen] = compile_instrument(
                chosen.source, chosen.function, chosen.flags, chosen.made_of, chosen.text
            )
        return self._compiled[chosen]

    def _look_after(self) -> None:
        """Put instruments at signal handlers that the program has installed since the last call."""
        if self._probes and not self.closed:
            with contextlib.suppress(TargetError):  # if the process has ended, its records are read all the same
                wants = self._handlers()
                if wants:
                    self._add(wants)

    def _restore(self) -> bool | None:
        try:
            return self.process.keeper.close()
        except GilkError as error:
            if error.slug not in ("keeper-gone", "no-such-process"):
                raise
            return None
        finally:
            with contextlib.suppress(GilkError):
                self.notes += self.process.keeper.notes()
            self.notes += self._onward.remarks()
            self.process.keep_learnt()


def _pages(size: int) -> int:
    return size + PAGE - 1 & -PAGE


def _identity(batches: list[Batch], in_force: InForce) -> tuple[list[int], list[tuple[int, frozenset[int]]]]:
    """A value that is equal for the same batches and units."""
    return [id(batch) for batch in batches], [(id(batch), units) for batch, units in in_force]
