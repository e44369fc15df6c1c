# SPDX-License-Identifier: LGPL-2.1-or-later
"""The session of a kernel: a set of probes as in a process, which the driver puts in."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from gilk.errors import MachineGone
from gilk.session.base import Probe
from gilk.session.entry import Entry
from gilk.session.ledger import Ledger
from gilk.session.onward import OnwardCalls
from gilk.session.probing import ProbingSession
from gilk.session.request import Builtin, CallsAt, CFunction, FiresSite, Wanted, WantedSite
from gilk.session.staging import ChangeResult
from gilk.splice.instrument import Instrument
from gilk.splice.kernel.planner import plan
from gilk.splice.plan import FunctionPlan, Refusal, Want
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.session_module import SessionModule
from gilk.targets.kernel.target import KernelTarget
from gilk.targets.kernel.workspace import KernelWorkspace
from gilk.toolchain.kernel_instrument import ModuleFile
from gilk.trace.clock import Clock, Sample
from gilk.trace.drain import Chunk
from gilk.trace.image_files import ImageFile
from gilk.trace.interrupts import Interrupts
from gilk.trace.kernel_drain import KernelDrain
from gilk.trace.threads import FarThreads

_MOST_POINTS = 1 << 20
_LOOKS = 16
_CALIBRATION = 0.05  # seconds from the first reads of the kernel's clocks to the last


class KernelSession(ProbingSession):
    """A set of probes in a kernel. Use it as a context manager; at its end the kernel's code is what it was.

    ``points``: how many probes there can be in all. ``ring``: bytes of a CPU's buffer per record class, a power of two.
    ``flight``: a full buffer keeps its newest records, and records stay in the kernel until close() or newest().
    ``interrupts``: a filter by process also passes records made in any interrupt on a CPU that a wanted process was
    last seen on.
    """

    def __init__(
        self, target: KernelTarget, points: int = 1 << 16, ring: int = 1 << 20, flight: bool = False,
        interrupts: bool = False,
    ) -> None:  # fmt: skip
        self.target = target
        most = min(points, _MOST_POINTS)
        self._workspace = KernelWorkspace(target.link, target.analysis(), most, ring, flight, interrupts)
        self._driver = driver = self._workspace.driver
        self._interrupts = Interrupts() if interrupts else None
        self._source = KernelDrain(driver, target.process_of, ring, flight, self._interrupts)
        super().__init__(self._source, clock_of(driver), FarThreads(target.link.read_file), most)
        self._ledger = Ledger(self._workspace, self._workspace, plan)
        self._onward = OnwardCalls(target, self._workspace.onward)
        self._counters: list[int] = []
        self._only: frozenset[int] | None = None
        self._recording = True

    @property
    def code(self) -> KernelTarget:
        return self.target

    @property
    def images(self) -> tuple[ImageFile, ...]:
        return ()  # lines of the kernel's source are not looked up

    def insert_wanted(self, wanted: list[Wanted], active: bool = True) -> tuple[Probe, ...]:
        return self._insert(wanted, active)

    def insert_sites(self, wanted: Sequence[WantedSite]) -> tuple[Probe, ...]:
        """Have sites of D programs fire, or modules called, in one change. Raises TargetError; then nothing has
        changed."""
        return self._insert(wanted, True)

    def load(self, module: ModuleFile, parameters: Sequence[str] = ()) -> SessionModule:
        """Load a module whose code instruments call; its records come with the session's, and it is unloaded when the
        session ends.

        ``parameters``: NAME=VALUE each, of the module. Raises TargetError `driver-load-failed`.
        """
        return self._workspace.load(module, parameters)

    def share(self, size: int) -> tuple[int, int]:
        """Memory that the kernel and processes share; returns our descriptor of it, and its address in the kernel.

        It stays until the last unit of the session is out. Raises TargetError.
        """
        return self._driver.share(size)

    def taken(self, final: bool = False) -> list[Chunk]:
        """The records since the last call, unconverted. ``final``: nothing writes records any more."""
        return self._stream.taken(final)

    def _insert(self, wanted: Sequence[Wanted | WantedSite], active: bool) -> tuple[Probe, ...]:
        with self._numbered(wanted) as numbers:
            before = len(self._counters)
            try:
                wants = [self._want(number, w) for number, w in zip(numbers, wanted, strict=True)]
                wants = self._onward.with_others(numbers, wanted, wants, self._ledger.entry)
                result = self._ledger.add(wants, active)
            except BaseException:
                del self._counters[before:]
                raise
        self._source.counters = self._counters
        self._know(result.outcome.total)
        self._note(result.outcome, len(numbers))
        return self._outcomes(self._settled(result), numbers)

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

    def newest(self) -> pa.Table:
        """The samples of all records in the buffers. In a session that is no flight recorder, poll() does the same."""
        held, self._source.held = self._source.held, False
        try:
            return self.poll()
        finally:
            self._source.held = held

    def filter(self, pids: Collection[int] | None) -> None:
        """Record only what these processes do from now on; None: record everything again.

        A record in an interrupt belongs to the interrupted task, unless the session has ``interrupts``. Counters still
        count for all processes, and C instruments still run for all; only their records are left out. Processes are
        known by number: call this again when one has ended, for its number may be given to another.
        """
        self._only = None if pids is None else frozenset(pids)
        if self._interrupts is not None:
            self._interrupts.wanted = self._only
        self._workspace.filter(self._recording, self._only)

    def record(self, on: bool) -> None:
        """Turn the making of records on or off."""
        self._recording = on
        self._workspace.filter(on, self._only)

    def _want(self, number: int, wanted: Wanted | WantedSite) -> tuple[Entry, Want]:
        entry = self._ledger.entry(self._workspace.ground, wanted.function)
        instrument = self._instrument(wanted.instrument, number)
        return entry, Want(wanted.point.address, wanted.point.after, instrument, number)

    def _instrument(self, chosen: Builtin | CFunction | FiresSite | CallsAt, number: int) -> Instrument:
        counter = -1
        match chosen:
            case Builtin.COUNT:
                counter, made = self._workspace.count()
            case Builtin.STAMP | Builtin.TIME:
                made = self._workspace.stamp(number + 1)
            case Builtin.ARGS:
                made = self._workspace.arguments(number + 1)
            case Builtin.REGS:
                made = self._workspace.registers(number + 1)
            case CFunction():
                made = self._workspace.call(chosen.source, chosen.function, number + 1, chosen.text)
            case FiresSite(site):
                made = self._workspace.fire(site)
            case CallsAt(function, told, replaces):
                made = self._workspace.call_at(function, told, replaces)
        self._counters.append(counter)
        return made

    def _settled(self, result: ChangeResult) -> list[FunctionPlan]:
        """The plans without the probes that the driver did not apply, which become refusals.

        The remaining probes of such a function are planned again: patches lead to one another, and a patch that is
        reached only in part would count only in part.
        """
        plans, refused = list(result.plans), dict[int, Refusal]()
        latest = result.refusals
        while (denied := self._workspace.take_denied()) or latest:
            # the first denial counts: a splice whose pad was refused is refused as well, for lack of the pad
            fresh = {key: denial.refusal for denial in reversed(denied) for key in denial.keys}
            refused.update(fresh)
            results = [self._ledger.remove(fresh)] if fresh else []
            if again := self._onward.lose(latest | fresh):
                results.append(self._ledger.add(again))
            plans += [plan for one in results for plan in one.plans]
            latest = {key: why for one in results for key, why in one.refusals.items()}
        return [_without(made, refused) for made in plans]

    def _now(self) -> int:
        return self._driver.status().monotonic

    @cached_property
    def _ahead(self) -> int:
        """How far the kernel's clock is ahead of ours, in ns, by the closest of several reads of both. If the kernel's
        clock lies between two reads of ours, it is our clock, and the result is 0."""
        looks = [(time.monotonic_ns(), self._now(), time.monotonic_ns()) for _ in range(_LOOKS)]
        before, there, after = min(looks, key=lambda look: look[2] - look[0])
        return 0 if before <= there <= after else there - (before + after) // 2

    def _look_after(self) -> None:
        """Do nothing: a module that is unloaded takes its units with it."""

    def take_out(self) -> bool | None:
        """Take all probes out, but remain the driver's client; returns whether the code is what it was."""
        self.restored = self._restore()
        return self.restored

    def _restore(self) -> bool | None:
        self.notes += self._onward.remarks()
        return self._workspace.undo()

    def close(self) -> pa.Table:
        """Take all probes out, and let go of the driver, so that another session may begin; returns the remaining
        samples.

        Raises MachineGone; use ``salvage`` then.
        """
        if self._all_read:
            return super().close()
        try:
            last = super().close()
            self._source.keep()
        finally:
            with contextlib.suppress(MachineGone):
                self.target.link.close_driver()
            self._workspace.unload()
        return last

    def salvage(self) -> pa.Table:
        """The samples that had already come from a machine that does not answer any more."""
        self._source.closed = True
        return self._gathered(self._stream.finish())


def clock_of(driver: Driver) -> Clock:
    """CLOCK_MONOTONIC of the kernel's machine, at the rate of the time stamp counter that its kernel has measured.

    If the counter is emulated, that rate can be wrong: the kernel measures it once, at boot, while something else may
    run.
    """
    looks = [_look(driver) for _ in range(_LOOKS)]
    time.sleep(_CALIBRATION)
    looks += [_look(driver) for _ in range(_LOOKS)]
    return Clock.agreed(looks, driver.hello.tsc_khz / 1e6)


def _look(driver: Driver) -> Sample:
    now = driver.status()
    return now.tsc, now.monotonic


def _without(made: FunctionPlan, refused: dict[int, Refusal]) -> FunctionPlan:
    here = {key: reason for key, reason in refused.items() if key in made.tactics}
    if not here:
        return made
    tactics = {key: tactic for key, tactic in made.tactics.items() if key not in here}
    return replace(made, tactics=tactics, refusals={**made.refusals, **here})
