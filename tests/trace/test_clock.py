# SPDX-License-Identifier: LGPL-2.1-or-later
"""TSC readings become the times that the system's own clock shows."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gilk.errors import StoreError
from gilk.trace import clock
from gilk.trace.clock import Clock


def test_the_clock_agrees_with_the_systems_clock() -> None:
    fitted = clock.calibrate(0.05)
    for _ in range(5):
        before = time.monotonic_ns()
        tsc, ns = clock.sample()
        after = time.monotonic_ns()
        assert before <= ns <= after
        assert abs(int(fitted.to_ns(np.array([tsc], np.uint64))[0]) - ns) < 20_000
        time.sleep(0.01)


def test_a_calibration_begun_ahead_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens only once: the next calibration takes its time again."""
    clock.begin()
    time.sleep(0.05)
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    fitted = clock.calibrate(0.05)
    tsc, ns = clock.sample()
    assert abs(int(fitted.to_ns(np.array([tsc], np.uint64))[0]) - ns) < 20_000
    clock.calibrate(60)
    assert waits[0] == 0 and waits[1] > 50


@pytest.mark.parametrize("hertz", [1_000_000_000, 2_899_999_123, 5_123_456_789])
def test_a_clock_rate_is_fitted_exactly_from_exact_samples(hertz: int) -> None:
    start, ns0 = (1 << 63) + 12345, 10**15
    ticks_per_ns = hertz / 1e9
    samples = [(start + round(ns * ticks_per_ns), ns0 + ns) for ns in range(0, 10**10, 10**9)]
    fitted = Clock.fit(samples)
    assert fitted.ticks_per_ns == pytest.approx(ticks_per_ns, rel=1e-9)
    tsc = np.array([sample[0] for sample in samples], np.uint64)
    assert np.abs(fitted.to_ns(tsc) - [sample[1] for sample in samples]).max() <= 2


def test_a_wrong_nominal_rate_is_corrected() -> None:
    """This works also if every third sample was interrupted for a millisecond; a rate that is only slightly wrong is
    kept."""
    samples = [(10**6 + 2 * ns, 10**9 + ns + 10**6 * (n % 3 == 1)) for n, ns in enumerate(range(0, 10**8, 10**6))]
    assert Clock.agreed(samples, 0.4) == Clock(10**6, 10**9, 2.0)
    assert Clock.agreed(samples, 2.00001).ticks_per_ns == 2.00001
    assert Clock.agreed(samples[:1], 0.4) == Clock(10**6, 10**9, 0.4)


def test_extreme_times_are_converted_without_an_error() -> None:
    fitted = Clock(10**6, 10**9, 2.0)
    times = fitted.to_ns(np.array([0, 10**6 - 2, 10**6, 10**6 + 2, (1 << 64) - 1, 1 << 63], np.uint64))
    assert times[1:4].tolist() == [10**9 - 1, 10**9, 10**9 + 1]
    assert times[0] == 10**9 - 500_000


@pytest.mark.parametrize("samples", [[], [(1, 1)], [(1, 1), (1, 1)], [(1, 1), (1, 2)], [(1, 5), (9, 1)]])
def test_inconsistent_clock_samples_are_refused(samples: list[tuple[int, int]]) -> None:
    with pytest.raises(StoreError) as caught:
        Clock.fit(samples)
    assert caught.value.slug == "clock-unknown"


def test_reading_the_counter_compiles_and_loads_nothing(tmp_path: Path) -> None:
    """There is no compiler and no cache, so that nobody can slip code in."""
    said = "import gilk.trace.clock as c; a = c.sample(); b = c.sample(); print(a[0] < b[0], a[1] < b[1])"
    said += "; print([line for line in open('/proc/self/maps') if 'x' in line.split()[1] and ('gilk' in line)])"
    environment = {**os.environ, "CC": "/nonexistent/cc", "HOME": str(tmp_path), "GILK_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "True True\n[]\n"
    assert list(tmp_path.iterdir()) == []


def test_forbidden_executable_memory_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def mprotect(self, *_: object) -> int:
            ctypes.set_errno(errno.EACCES)
            return -1

    clock._reader.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Refusing())
    with pytest.raises(StoreError, match="may not be executed: Permission denied") as caught:
        clock.sample()
    assert caught.value.slug == "clock-unknown"


def test_a_reading_that_was_interrupted_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor is gone for a second between two clocks, in all readings but one."""
    waits = iter([10**9] * 2 + [10**3] + [10**9] * 99)
    ticking = [0]

    def monotonic() -> int:
        return ticking[0]

    def real() -> int:
        moment = ticking[0] + 77 * 10**9
        ticking[0] += next(waits)
        return moment

    monkeypatch.setattr(time, "monotonic_ns", monotonic)
    monkeypatch.setattr(time, "time_ns", real)
    assert abs(clock.realtime_offset() - 77 * 10**9) <= 10**3


def test_realtime_is_monotonic_plus_the_offset() -> None:
    """Both clocks are read between two readings of the other, however long this process waits for a processor."""
    earliest, offset = time.time_ns(), clock.realtime_offset()
    meant, latest = time.monotonic_ns() + offset, time.time_ns()
    assert earliest - 5_000_000 < meant < latest + 5_000_000
