# SPDX-License-Identifier: LGPL-2.1-or-later
"""The workspace of a session in a kernel: memory for patches, counters, rings, and the units that are in force.

It does for a Ledger what Workspace and Keeper do together for a process: it stages plans, and exchanges some units for
others.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import field, replace
from pathlib import Path

from gilk import activity
from gilk.analysis.analysis import Analysis
from gilk.errors import TargetError
from gilk.image.kernel import listings
from gilk.image.kernel.build import NAME as CORE
from gilk.image.kernel.build import owner_at
from gilk.image.model import Image
from gilk.splice.instrument import Instrument
from gilk.splice.kernel import units as splices
from gilk.splice.kernel.callee import examine
from gilk.splice.kernel.host import InterruptMask, RingPlaces, kernel_context
from gilk.splice.kernel.instrument import (
    KernelCallWithIid,
    KernelCallWithRegisters,
    KernelCount,
    KernelStamp,
    KernelStampWithArguments,
)
from gilk.splice.plan import FunctionPlan, Plan, Refusal
from gilk.splice.planner import PatchContext
from gilk.targets.kernel import driver_abi as abi
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import CounterRange, Verdict
from gilk.targets.kernel.instruments import KernelInstruments
from gilk.targets.kernel.link import Link
from gilk.targets.kernel.onward import KernelOnward
from gilk.targets.kernel.session_module import SessionModule
from gilk.toolchain.kernel_instrument import ModuleFile
from gilk.values import dataclass

_LEAST_ARENA, _ARENA_PER_POINT = 1 << 20, 192  # bytes
_STUB = 64  # bytes of the stub that leads from the registers thunk to ilk_log_registers
_COUNTERS_AT_ONCE = 512
_UNITS_AT_ONCE, _MESSAGES = 400, 25  # at least so many units in a message, and about so many messages at most
#: The driver's verdicts as refusals of plans: facts that the client did not know.
_REFUSALS = {
    Verdict.BLACKLIST: Refusal.BLACKLISTED,
    Verdict.STATIC_KEY: Refusal.STATIC_KEY,
    Verdict.STATIC_CALL: Refusal.STATIC_CALL,
    Verdict.FTRACE: Refusal.FENTRY,
    Verdict.EXCEPTION: Refusal.FAULTS,
    Verdict.BUG: Refusal.BUG,
    Verdict.KPROBE: Refusal.PROBED,
    Verdict.OVERLAP: Refusal.TAKEN,
    Verdict.LEADER: Refusal.OVERLAP,
    Verdict.STALE: Refusal.STALE,
    Verdict.MODULE: Refusal.LEAVING,
    Verdict.RUN_INTO: Refusal.RUN_INTO,
    Verdict.UNREAD: Refusal.UNREAD,
}


@dataclass(frozen=True)
class Changed:
    """How long a change took, in seconds. The kernel never stands still for it."""

    total: float
    seconds: float = 0.0


@dataclass(frozen=True)
class Denied:
    """A unit that the driver did not apply; ``plan`` is that of its function."""

    plan: FunctionPlan
    unit: splices.Unit
    verdict: Verdict

    @property
    def refusal(self) -> Refusal:
        return _REFUSALS.get(self.verdict, Refusal.DRIVER)

    @property
    def keys(self) -> list[int]:
        """The keys of the wants that the unit was made for."""
        return [key for key, patch in self.plan.patched.items() if patch == self.unit.patch]


@dataclass
class _Staged:
    """The units of each function of a plan; ``numbers`` are those of the units in force, by the function's index."""

    plans: tuple[FunctionPlan, ...]
    units: list[tuple[splices.Unit, ...]]
    numbers: dict[int, list[int]] = field(default_factory=dict)


class KernelWorkspace:
    """The workspace of one session in a kernel. Raises TargetError as Driver does."""

    def __init__(
        self, link: Link, analysis: Analysis, points: int, ring: int, flight: bool = False, interrupts: bool = False
    ) -> None:
        self.driver = driver = Driver(link)
        self._link, self._read_live = link, link.read_core
        self._own_modules: list[SessionModule] = []
        self.instruments = KernelInstruments(link, driver.hello.release, driver)
        self._image: Image = analysis.image
        self._read_file = link.read_file
        self._modules = self._loaded()
        wanted = max(_LEAST_ARENA, points * _ARENA_PER_POINT)
        size = min(wanted, driver.hello.arena_max)
        base = driver.arena(size)
        self._stub = base
        self.ground: PatchContext = kernel_context(analysis, base + _STUB, size - _STUB)
        self._ring, self._flight, self._interrupts = ring, flight, interrupts
        self._rings: RingPlaces | None = None
        self._members: frozenset[int] = frozenset()
        self._blocks: list[CounterRange] = []
        self._counters = 0
        self._batches: dict[int, _Staged] = {}
        self._batch = self._number = 0
        self._denied: list[Denied] = []
        self._touched: dict[int, bytes] = {}

    # Instruments.

    def count(self) -> tuple[int, Instrument]:
        """A new counter: its number, and the instrument that adds to it."""
        number = self._counters
        if not self._blocks or number >= self._blocks[-1].first + self._blocks[-1].count:
            self._blocks += self.driver.counters(max(_COUNTERS_AT_ONCE, number))
        block = next(b for b in reversed(self._blocks) if b.first <= number < b.first + b.count)
        self._counters += 1
        return number, KernelCount(block.offset(number))

    def stamp(self, iid: int) -> Instrument:
        return KernelStamp(iid, self._records())

    def arguments(self, iid: int) -> Instrument:
        return KernelStampWithArguments(iid, self._records())

    def registers(self, iid: int) -> Instrument:
        self._records()
        return KernelCallWithRegisters(self._stub, iid, self.driver.symbols["ilk_registers"])

    @property
    def onward(self) -> KernelOnward:
        """Makes the instruments of timed calls that go on in other functions."""
        return KernelOnward(self.ground, self.driver, lambda: self._records().set)

    def fire(self, site: int) -> Instrument:
        """The instrument that fires a site of D programs."""
        return KernelCallWithRegisters(0, site, self.driver.symbols["ilk_fire"])

    def call(self, source: Path, function: str, iid: int, text: str | None = None) -> Instrument:
        """A user's instrument, compiled from a source file, or from its ``text``. Raises CompileError, UsageError."""
        found = self.instruments.get(source, function, self._records().set, text)
        if found.plain:
            code = self._read_live([(found.plain, found.size)])[0]
            return KernelCallWithIid(found.plain, iid, *examine(code, found.plain, self._image.returns))
        return KernelCallWithRegisters(found.entry, iid, self.driver.symbols["ilk_registers"])

    def call_at(self, function: int, number: int, replaces: bool = False) -> Instrument:
        """The instrument that calls code of a session module, with the registers and a number."""
        return KernelCallWithRegisters(function, number, self.driver.symbols["ilk_registers"], replaces)

    def load(self, module: ModuleFile, parameters: Sequence[str] = ()) -> SessionModule:
        """Load a module that writes into the session's rings; it stays until unload(). Raises TargetError
        `driver-load-failed`."""
        loaded = SessionModule(self._link, self.driver, module, self._records().set, parameters)
        self._own_modules.append(loaded)
        return loaded

    def filter(self, on: bool, pids: Collection[int] | None) -> None:
        """Have records made if `on`; only for the processes `pids`, unless that is None."""
        self._records()
        members = self._members if pids is None else frozenset(pids)
        away = self._members - members
        self.driver.filter(on, pids is not None, members - self._members, away, interrupts=self._interrupts)
        self._members = members  # processes that stay in the set miss no record

    def _records(self) -> RingPlaces:
        """The rings, made when first needed."""
        if self._rings is None:
            order = self._ring.bit_length() - 1
            made = self.driver.records((order,) * abi.CLASSES, self._flight)
            hello, symbols = self.driver.hello, self.driver.symbols
            wpos = (made.wpos[0], made.wpos[1], made.wpos[2], made.wpos[3])
            self._rings = RingPlaces(
                *(wpos, made.chunk, made.number, symbols["ilk_reserve"], hello.current_gs, hello.pid_offset),
                *(made.filter, hello.tgid_offset),
                InterruptMask(hello.preempt_gs, abi.IN_INTERRUPT) if self._interrupts else None,
            )
            self.driver.fill([(self._stub, _log_registers(self._stub, made.number, symbols["ilk_log_registers"]))])
        return self._rings

    # The interface to a Ledger.

    def stage(self, plan: Plan) -> tuple[int, _Staged]:
        """Write patches, to which no code leads yet; returns the batch's number and the batch."""
        self.driver.fill((patch.address, patch.data) for patch in splices.fills(plan.functions))
        self._batch += 1
        staged = _Staged(plan.functions, [splices.units(function, self._image.read) for function in plan.functions])
        self._batches[self._batch] = staged
        return self._batch, staged

    def change(self, remove: dict[int, set[int]], add: dict[int, set[int]]) -> Changed:
        """Undo the units of some functions, and apply those of others; take_denied() gives the units that were not
        applied."""
        began = time.perf_counter()
        gone = [n for batch, which in remove.items() for i in which for n in self._batches[batch].numbers.pop(i, ())]
        for outcome in self.driver.undo(gone):
            if outcome.verdict not in (Verdict.OK, Verdict.GONE):
                raise TargetError(
                    "driver-busy", f"something else has changed the bytes of a probe: {outcome.verdict.name.lower()}"
                )
        self._apply([(self._batches[batch], i) for batch, which in add.items() for i in sorted(which)])
        return Changed(time.perf_counter() - began)

    def _apply(self, functions: list[tuple[_Staged, int]]) -> None:
        """Apply units in messages of some hundred or thousand. While the driver carries a message out, its probes work
        by traps; and it waits, for seconds on a busy machine, until each task has slept or left the kernel."""
        messages: list[abi.DriverUnit] = []
        origins: list[tuple[_Staged, int, splices.Unit]] = []
        most = max(_UNITS_AT_ONCE, len(functions) // _MESSAGES)
        for done, (staged, index) in enumerate(functions):
            activity.tell("putting probes into", done, len(functions), "functions")
            if len(messages) + len(staged.units[index]) > most:
                self._send(messages, origins)
                messages, origins = [], []
            numbers: dict[int, int] = {}
            for unit in staged.units[index]:
                self._number += 1
                numbers[unit.address] = self._number
                messages.append(_message(unit, self._number, numbers.get(unit.pad, 0)))
                origins.append((staged, index, unit))
        self._send(messages, origins)

    def _send(self, messages: list[abi.DriverUnit], origins: list[tuple[_Staged, int, splices.Unit]]) -> None:
        for outcome, (staged, index, unit) in zip(self.driver.apply(messages), origins, strict=True):
            if outcome.verdict is Verdict.OK:
                staged.numbers.setdefault(index, []).append(outcome.number)
                self._touched.setdefault(unit.address, self._image.read(unit.address, len(unit.old)))
            else:
                self._denied.append(Denied(staged.plans[index], unit, outcome.verdict))

    def take_denied(self) -> list[Denied]:
        """The units that were not applied since the last call."""
        denied, self._denied = self._denied, []
        return denied

    def give_up(self, units: dict[int, set[int]]) -> None:
        """Do nothing: units that are not in force have left no trace in a kernel's code."""

    def forget(self, number: int) -> None:
        """Drop a batch that has no units in force."""
        del self._batches[number]

    def undo(self) -> bool:
        """Undo everything; returns whether each place that was ever written has its original bytes again, as read from
        live memory.

        Places in modules that have been unloaded are left out: their memory may belong to others by now.
        """
        left = self.driver.undo_all()
        lasting = {CORE, *(module.name for module in self._modules & self._loaded())}
        places = [each for each in sorted(self._touched.items()) if owner_at(self._image, each[0]) in lasting]
        live = self._read_live([(address, len(old)) for address, old in places])
        self.instruments.unload()
        return not left and all(now == old for now, (_, old) in zip(live, places, strict=True))

    def unload(self) -> None:
        """Unload the session's modules, once the driver's client has been closed."""
        while self._own_modules:
            self._own_modules.pop().unload()

    def _loaded(self) -> frozenset[listings.LoadedModule]:
        """The loaded modules. A module that was unloaded and loaded again lies elsewhere, or has the same code
        there."""
        return frozenset(listings.modules(self._read_file("/proc/modules")))


def _message(unit: splices.Unit, number: int, pad: int) -> abi.DriverUnit:
    kind = abi.DriverUnitKind(unit.kind)
    made = abi.DriverUnit(
        number, kind, unit.address, unit.patch, unit.old, unit.new, unit.copy, pad if unit.pad else 0, unit.several
    )
    return replace(made, old=b"", new=b"") if kind is abi.DriverUnitKind.FENTRY else made


def _log_registers(at: int, rings: int, target: int) -> bytes:
    """The code of a stub that turns ``f(regs, iid)`` into ``ilk_log_registers(set, iid, regs)``."""
    code = b"\x48\x89\xfa" + b"\xbf" + rings.to_bytes(4, "little")  # mov %rdi, %rdx; mov $set, %edi
    distance = target - (at + len(code) + 5)
    return code + b"\xe9" + distance.to_bytes(4, "little", signed=True)
