# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``cpc``: ``EVENT-MODE-COUNT`` fires each time that a processor has counted so many events, as
perf_event_open(2) counts them. MODE is ``user``, ``kernel`` or ``all``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

from gilk.lang.d.probes import Description, DProbe, Key
from gilk.providers.clock import Tick
from gilk.targets.processor_samples import Counted

_NAME = re.compile(r"(\w+)-(all|user|kernel)-([1-9]\d{0,17})\Z", re.ASCII)
_RAW = re.compile(r"r([0-9a-f]{1,16})\Z")
_TYPES = {"hw": 0, "sw": 1}
_OF_THE_PROCESSOR = 4  # PERF_TYPE_RAW: the number is the processor's own
#: Events by the names that linux/perf_event.h has for them, in lower case, with their numbers; other names behind.
_ROWS = """
    hw_cpu_cycles 0 cycles
    hw_instructions 1
    hw_cache_references 2
    hw_cache_misses 3
    hw_branch_instructions 4 branches
    hw_branch_misses 5
    hw_bus_cycles 6
    hw_stalled_cycles_frontend 7 idle_cycles_frontend
    hw_stalled_cycles_backend 8 idle_cycles_backend
    hw_ref_cpu_cycles 9 ref_cycles
    sw_cpu_clock 0
    sw_task_clock 1
    sw_page_faults 2 faults
    sw_context_switches 3 cs
    sw_cpu_migrations 4 migrations
    sw_page_faults_min 5 minor_faults
    sw_page_faults_maj 6 major_faults
    sw_alignment_faults 7
    sw_emulation_faults 8
"""
_LISTED = 1_000_000_000  # the count in names of a listing, where any could stand


@cache
def _events() -> dict[str, tuple[int, int]]:
    """The type and the number of each event, by each of its names."""
    found: dict[str, tuple[int, int]] = {}
    for line in _ROWS.strip().splitlines():
        name, number, *others = line.split()
        event = _TYPES[name[:2]], int(number)
        found.update(dict.fromkeys((f"perf_count_{name}", name[3:], *others), event))
    return found


def counted(description: Description, counts: Callable[[Counted], bool]) -> Tick | None:
    """The probe that a description means; None if it means none, or if the machine does not count such events, as
    ``counts`` finds out."""
    if description.provider not in ("", "cpc") or description.module or description.function:
        return None
    event = _meant(description.name)
    if event is None or not counts(event):
        return None
    return Tick(("cpc", "", "", description.name), event.period, False, event)


def names(description: Description, counts: Callable[[Counted], bool]) -> Iterator[Key]:
    """The names of a probe for each event that the machine counts, as far as they match the description."""
    for name, (type_, number) in _events().items():
        key = "cpc", "", "", f"{name}-all-{_LISTED}"
        if (
            name.startswith("perf_count_")
            and description.matches(DProbe(0, *key))
            and counts(Counted(type_, number, _LISTED))
        ):
            yield key


def missing(description: Description) -> str:
    """The reason why a description matches nothing."""
    event = _meant(description.name)
    if event is not None:
        return "the machine does not count such events, or not for you"
    if _NAME.match(description.name):
        return "there is no such event: gilk dtrace -l -P cpc lists them"
    return "a name is EVENT-MODE-COUNT, with the mode all, user or kernel: cpu_clock-all-10000000"


def _meant(name: str) -> Counted | None:
    found = _NAME.match(name)
    event = _event(found[1]) if found else None
    if found is None or event is None:
        return None
    return Counted(*event, int(found[3]), user=found[2] != "kernel", kernel=found[2] != "user")


def _event(name: str) -> tuple[int, int] | None:
    """The type and the number of an event; None if there is none of that name."""
    raw = _RAW.match(name)
    return (_OF_THE_PROCESSOR, int(raw[1], 16)) if raw else _events().get(name)
