# SPDX-License-Identifier: LGPL-2.1-or-later
"""The state of an experiment's instruments while it runs: when each is due, when it went in and out, and the outcome of
its points."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, field
from enum import Enum
from typing import Any

from gilk.runs.strategy import Chosen
from gilk.session.base import Probe
from gilk.session.probing import ProbingSession
from gilk.session.request import CFunction, Request, Wanted
from gilk.trace.probes import RefusedPoint, distinct_refusals
from gilk.values import dataclass

Interval = tuple[int, int]  # ns since the session's start; a change was made between these two times


@dataclass(frozen=True, slots=True)
class Item:
    """An instrument, and when to put it in, in seconds after the targets begin to run.

    ``stop``: when to take it out, None for the end. ``only``: globs for the names of the targets that it is for; ()
    means all.
    """

    wanted: Request | Chosen
    name: str = ""
    start: float = 0.0
    stop: float | None = None
    only: tuple[str, ...] = ()

    @property
    def of_kernel(self) -> bool:
        return self.wanted.of_kernel

    @property
    def once(self) -> bool:
        return isinstance(self.wanted, Chosen) and self.wanted.strategy.once

    @property
    def told_by_edges(self) -> bool:
        return isinstance(self.wanted, Chosen) and self.wanted.strategy.name == "edges"


class ItemState(Enum):
    WAITING = "waiting"
    IN = "in"
    OUT = "out"
    NEVER = "never"  # its target had ended, or the probes were refused


@dataclass
class Deployment:
    """An item in one target. ``probes``: all that it has had; ``present``: the numbers of those that are in now."""

    item: Item
    session: ProbingSession
    pid: int  # 0 for the kernel
    target: str  # the target's name
    wanted: list[Wanted]
    state: ItemState = ItemState.WAITING
    probes: tuple[Probe, ...] = ()
    present: set[int] = field(default_factory=set)
    went_in: Interval | None = None
    went_out: Interval | None = None
    failure: str = ""

    @property
    def due(self) -> float | None:
        """When there is next something to do, in seconds after the start; None if there is nothing."""
        if self.state is ItemState.WAITING:
            return self.item.start
        return self.item.stop if self.state is ItemState.IN else None

    def spliced(self, number: int) -> bool:
        """Whether the probe got in when it was put in."""
        return self.probes[number - self.probes[0].number].tactic is not None

    def ended(self, when: Interval) -> None:
        """Note that the session was closed, or that the target has gone, so that the item is out."""
        if self.state is ItemState.IN:
            self.state, self.went_out = ItemState.OUT, when
        elif self.state is ItemState.WAITING:
            self.state = ItemState.NEVER
            self.failure = self.failure or "it was over before its time came"

    def to_json(self) -> dict[str, Any]:
        """The item as JSON values. `in` and `out` are each [from, to] in ns: the change was made between these two
        times of `time`; `present` is how many of its points are in now."""
        item, spliced = self.item, sum(probe.tactic is not None for probe in self.probes)
        return {
            "instrument": item.name,
            "target": self.target,
            "pid": self.pid,
            "start_s": item.start,
            "stop_s": item.stop,
            "in": list(self.went_in) if self.went_in else None,
            "out": list(self.went_out) if self.went_out else None,
            "state": self.state.value,
            "points": len(self.wanted),
            "present": len(self.present),
            "spliced": spliced,
            "refused": len(self.probes) - spliced,
            "refused_points": [asdict(each) for each in refused_points(self.probes)],
            "failure": self.failure,
        }


def refused_points(probes: Iterable[Probe]) -> list[RefusedPoint]:
    """The points that were refused when they were to be put in, each reason once."""
    return distinct_refusals((p.row.point, p.refusal) for p in probes if p.refusal is not None)


def title(wanted: Request | Chosen) -> str:
    """The request as a user would write it: ``main:entry=count``, ``libc:malloc=@path:stamp``."""
    spec = wanted.spec
    where = f"{spec.image}:{spec.function}" if spec.image else spec.function
    made = wanted.instrument
    instrument = f"{made.source.name}:{made.function}" if isinstance(made, CFunction) else str(made)
    if isinstance(wanted, Request):
        return f"{where}:{spec.where}={instrument}"
    own = "" if wanted.instrument == wanted.strategy.instrument else f":{instrument}"
    return f"{where}=@{wanted.strategy.name}{own}"
