# SPDX-License-Identifier: LGPL-2.1-or-later
"""The time that clauses have, and the times of their records, are the same function of the time stamp counter."""

from __future__ import annotations

import pytest

from gilk.engines.dtrace.environment import factor, in_ns
from gilk.trace.clock import Clock

HOUR = 3_600_000_000_000  # ns


@pytest.mark.parametrize("rate", [0.4, 1.0, 1.999, 2.6, 3.2, 5.0])
def test_time_drifts_less_than_a_microsecond_in_an_hour(rate: float) -> None:
    clock = Clock(1 << 40, 77, rate)
    mult, shift = factor(clock)
    assert mult < 1 << 32 and shift < 64, "struct gd_environment has room for these"
    assert abs(in_ns(clock, clock.tsc0 + round(HOUR * rate)) - clock.ns0 - HOUR) < 1000


def test_times_before_the_first_reading_are_before_it() -> None:
    clock = Clock(10_000, 5000, 2.0)
    assert [in_ns(clock, tsc) for tsc in (9998, 10_000, 10_001, 10_002)] == [4999, 5000, 5000, 5001]
