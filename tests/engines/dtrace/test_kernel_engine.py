# SPDX-License-Identifier: LGPL-2.1-or-later
"""The engine of a program about a kernel, from BEGIN to END, with a driver whose memory and counters are written
here."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gilk.engines.dtrace import kernel_engine, machine_sampling
from gilk.engines.dtrace.asked import Asked, prepare
from gilk.engines.dtrace.kernel_engine import KernelEngine
from gilk.lang.d.probes import DProbe
from gilk.targets.kernel.target import KernelTarget
from gilk.trace.clock import Clock
from gilk.trace.d.copied import CopiedMemory
from gilk.trace.d.events import DropKind, Dropped
from gilk.trace.d.layout import DROPS, MemoryLayout, State
from gilk.trace.d.memory import ProgramMemory

#: Without a kernel, gilk has the processors sampled for each of these clauses but BEGIN's and END's.
_PROGRAM = "BEGIN, END, profile-97hz, tick-10ms, cpc:::cpu_clock-all-1000000 { trace(1); }"


class Owner:
    """A memory as the driver has it."""

    def __init__(self, layout: MemoryLayout) -> None:
        self._bytes = mmap.mmap(-1, layout.size)
        self.memory = ProgramMemory(layout, self._bytes)
        self.memory.initialise()

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self._bytes[at : at + size] for at, size in ranges]

    def put(self, words: Sequence[tuple[int, int, int]]) -> None:
        for at, value, width in words:
            self._bytes[at : at + width] = value.to_bytes(width, "little")


class Driven:
    """The part of the engine that uses the driver. ``done``: what it was asked to do, in order."""

    processors, keeps, wall, aborted, stopped, text = 2, False, 0, False, ((), False), ""
    parts: tuple[Any, ...] = ()
    aggregations: tuple[Any, ...] = ()
    clock = Clock(0, 0, 1.0)

    def __init__(self, *_: object) -> None:
        self.done: list[str] = []
        self.missed = (0, 0)

    def load(self, layout: MemoryLayout, _clausetime: int, _watched: bool) -> CopiedMemory:
        self.owner = Owner(layout)
        return CopiedMemory(layout, cast(Any, self.owner))

    @property
    def state(self) -> int:
        return int(self.owner.memory.state)

    def insert(self) -> list[tuple[DProbe, str]]:
        self.done.append("insert")
        return []

    def fire(self, probe: DProbe, _arguments: Sequence[int], _always: bool) -> None:
        self.done.append(probe.name)

    def start_clocks(self) -> None:
        self.done.append("clocks")

    def take_out(self) -> bool:
        self.done.append("take out")
        return True

    def image(self) -> None:
        return None

    def now(self) -> int:
        return 1


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> tuple[KernelEngine, Driven]:
    """Sampling the processors of this machine, which are not those of the kernel, fails the test."""

    def sampled(*_: object) -> None:
        raise AssertionError("the processors of this machine are sampled")

    monkeypatch.setattr(kernel_engine, "InKernel", Driven)
    monkeypatch.setattr(machine_sampling, "MachineSampling", sampled)
    consumer = prepare(Asked((("n", _PROGRAM),)))
    consumer.compile()
    assert sum(bool(tick.counted) for _, tick in consumer.enabled.ticks) == 2
    nothing = cast(KernelTarget, SimpleNamespace(link=None))
    made = KernelEngine(consumer.compiled.program, consumer.enabled, consumer.options, nothing, consumer.world)
    return made, cast(Driven, made._here)


def test_a_program_runs_from_begin_to_end_in_the_kernel_alone(engine: tuple[KernelEngine, Driven]) -> None:
    made, driven = engine
    made.begin()
    assert made.active and driven.state == State.ACTIVE
    assert made.fire_ticks() > 0 and list(made.poll()) == []
    assert made.losses() == ()
    assert made.take_out() is True and driven.state == State.INACTIVE
    made.end()
    assert driven.done == ["insert", "BEGIN", "clocks", "take out", "END"]
    assert made.notes == [] and made.losses() == () and not made.corrupt


def test_losses_in_a_kernel_are_told_once_each(engine: tuple[KernelEngine, Driven]) -> None:
    made, driven = engine
    made.begin()
    driven.owner.memory.drops[DROPS + DropKind.PRINCIPAL] = 3  # on processor 1
    driven.missed = (2, 1)
    lost = (Dropped(DropKind.PRINCIPAL, 1, 3), Dropped(DropKind.NESTED, 0, 2), Dropped(DropKind.SHALLOW, 0, 1))
    assert made.losses() == lost
    assert made.losses() == ()
    driven.missed = (2, 4)
    assert made.losses() == (Dropped(DropKind.SHALLOW, 0, 3),)
