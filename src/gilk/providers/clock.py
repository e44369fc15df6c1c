# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``profile``: probes by the clock. ``tick-N`` fires in the consumer, once for all processors.
``profile-N`` fires there, too, but for each running thread of the process; without a process, for
what each processor runs, if gilk may sample processors, and else like ``tick-N``. A ``tick-N`` whose clauses ask who
runs is then a sample of one processor."""

from __future__ import annotations

import re

from gilk.lang.d.options import NANOSECONDS
from gilk.lang.d.probes import Description, Key
from gilk.targets.processor_samples import Counted
from gilk.values import dataclass

_NAME = re.compile(r"(tick|profile)-(\d+)([a-z]*)\Z")
_CLOCK = 1, 0  # type and number of the event of perf_event_open(2) that counts ns of a processor
_SHORTEST = 200_000  # ns, as in DTrace


@dataclass(frozen=True, slots=True)
class Tick:
    """A probe by the clock. ``period`` in ns. ``samples``: it fires for each thread that runs. ``counted``: the event
    by which processors are sampled; a probe without one is no sample of processors."""

    key: Key
    period: int
    samples: bool
    counted: Counted | None = None


def ticks(description: Description) -> Tick | None:
    """The probe that a description means; None if it means none. These probes are made on demand, so globs match
    nothing."""
    if description.provider not in ("", "profile") or description.module or description.function:
        return None
    period, samples = _period(description.name), description.name.startswith("profile")
    event = counted(period) if samples else None
    return Tick(("profile", "", "", description.name), period, samples, event) if period else None


def counted(period: int, everywhere: bool = True) -> Counted:
    """The event of a processor's clock. ``period`` in ns. ``everywhere``: on each processor, not on one alone."""
    return Counted(*_CLOCK, period, everywhere=everywhere)


def _period(name: str) -> int:
    """The period in ns; 0 for a name that is not a clock probe's, and for a period that is too short."""
    found = _NAME.match(name)
    if found is None or not int(found[2]):
        return 0
    count, unit = int(found[2]), found[3] or "hz"
    period = 10**9 // count if unit == "hz" else count * NANOSECONDS.get(unit, 0)
    return period if period >= _SHORTEST else 0
