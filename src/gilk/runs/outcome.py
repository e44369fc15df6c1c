# SPDX-License-Identifier: LGPL-2.1-or-later
"""The outcome of a run, over all its sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gilk.session.base import BaseSession
from gilk.trace.calls import CallTable
from gilk.trace.probes import Inlined, RefusedPoint
from gilk.values import dataclass

_LOST = ("drops", "lost", "nested", "corrupt")


@dataclass
class Result:
    """``calls`` is None when nothing was timed; ``restored`` is over all processes, None when that cannot be known."""

    counts: dict[str, int]
    calls: CallTable | None
    numbers: dict[str, Any]
    tactics: dict[str, int]
    refusals: dict[str, int]
    restored: bool | None
    partial: bool
    notes: list[str]
    file: str
    refused_points: Sequence[RefusedPoint] = ()
    inlined: Sequence[Inlined] = ()

    @property
    def lost(self) -> dict[str, int]:
        """Records that did not come, by why."""
        return {name: self.numbers[name] for name in _LOST}


def added(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Name by name."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


def refused_by_point(result: Result) -> dict[str, str]:
    """The reason for which each point was refused; the first one, where one name stands for several."""
    return {each.point: each.reason for each in reversed(result.refused_points)}


def numbers(sessions: Sequence[BaseSession], tactics: Mapping[str, int], refusals: Mapping[str, int]) -> dict[str, Any]:
    drains = [session.drain for session in sessions]
    return {
        "records": sum(session.records for session in sessions),
        "drops": sum(drain.drops() for drain in drains),
        "lost": sum(drain.lost() for drain in drains),
        "nested": sum(drain.nested() for drain in drains),
        "corrupt": sum(drain.corrupt for drain in drains),
        "asked": sum(session.totals.asked for session in sessions),
        "spliced": sum(tactics.values()),
        "refused": sum(refusals.values()),
        "activation_ms": 1000 * sum(session.totals.activation for session in sessions),
    }
