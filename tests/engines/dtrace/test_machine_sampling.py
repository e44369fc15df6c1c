# SPDX-License-Identifier: LGPL-2.1-or-later
"""Samples of processors become firings, and what the kernel holds back is told as a loss."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict

import pytest

from gilk.engines.dtrace import machine_sampling
from gilk.engines.dtrace.machine_sampling import MachineSampling
from gilk.lang.d.probes import DProbe
from gilk.targets.processor_samples import Counted, ProcessorSample
from gilk.trace.clock import Clock
from gilk.trace.d.events import DropKind, Dropped

_NAME_AT = 56  # of struct gd_environment: behind four numbers of eight bytes and six of four


class Given:
    """Samples that the test gives."""

    def __init__(self, _events: object, _processor: object) -> None:
        self.throttled: Counter[int] = Counter()
        self.samples: list[ProcessorSample] = []

    def take(self) -> list[ProcessorSample]:
        taken, self.samples = self.samples, []
        return taken


@pytest.fixture
def sampling(monkeypatch: pytest.MonkeyPatch) -> tuple[MachineSampling, Given]:
    monkeypatch.setattr(machine_sampling, "ProcessorSamples", Given)
    probe = DProbe(1, "cpc", "", "", "cpu_clock-all-1000000")
    made = MachineSampling([(probe, Counted(1, 0, 1_000_000))], Clock(0, 0, 1.0), None)
    given = made._samples
    assert isinstance(given, Given)
    return made, given


def test_samples_that_the_kernel_holds_back_are_told_once(sampling: tuple[MachineSampling, Given]) -> None:
    made, given = sampling
    assert made.losses() == ()
    given.throttled.update({1: 2, 0: 1})
    assert made.losses() == (Dropped(DropKind.THROTTLED, 0, 1), Dropped(DropKind.THROTTLED, 1, 2))
    assert made.losses() == ()
    given.throttled[1] += 3
    assert made.losses() == (Dropped(DropKind.THROTTLED, 1, 3),)


def test_a_program_that_is_executed_in_anothers_place_has_its_own_name_at_once(
    sampling: tuple[MachineSampling, Given],
) -> None:
    """The process is alive all the while, with a name that none of its samples has any more."""
    made, given = sampling
    plain = ProcessorSample(1, 0, 0, os.getpid(), os.getpid(), 1, 0)
    given.samples = [
        ProcessorSample(**{**asdict(plain), "name": name, "program": number})
        for number, name in enumerate((b"sh", b"prog", b"sh"))
    ]
    names = [each.environment[_NAME_AT:].partition(b"\0")[0] for each in made.events()]
    assert names == [b"sh", b"prog", b"sh"]
