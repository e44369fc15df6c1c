# SPDX-License-Identifier: LGPL-2.1-or-later
"""Outcomes of runs, summed up over all sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gilk.runs.spent import is_measured
from gilk.session.base import BaseSession
from gilk.trace.calls import CallTable
from gilk.trace.image_files import ImageFile
from gilk.trace.probes import Inlined, ProbeRow, RefusedPoint
from gilk.trace.programs import ProgramOutcome
from gilk.trace.spent import Spent
from gilk.trace.stacks import CountedStack
from gilk.values import dataclass

_LOST = ("drops", "lost", "nested", "corrupt")


@dataclass
class Result:
    """The outcome of a run. ``calls``: the timed calls, None if nothing was timed. ``restored``: whether all processes
    are what they were, None if that cannot be known.

    ``programs``: of a tree that was followed, in the order in which they were executed. ``stacks``: the counted stacks,
    the most frequent first. ``spent``: what the probes have taken, None if the costs of instruments are not known.
    """

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
    programs: Sequence[ProgramOutcome] = ()
    stacks: Sequence[CountedStack] = ()
    spent: Spent | None = None

    @property
    def lost(self) -> dict[str, int]:
        """The numbers of records that are missing, by reason."""
        return {name: self.numbers[name] for name in _LOST}


def added(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The sums of the numbers, name by name."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


def refused_by_point(result: Result) -> dict[str, str]:
    """The reason why each point was refused, by the point's name; if several have the name, the first one's."""
    return {each.point: each.reason for each in reversed(result.refused_points)}


@dataclass(frozen=True)
class SessionOutcome:
    """The outcome of one session. ``who``: its target; ``rows``: its probes; ``images``: the files of their
    images; ``measured``: as in runs/spent.py."""

    who: str
    rows: tuple[ProbeRow, ...]
    counts: dict[str, int]
    tactics: dict[str, int]
    refusals: dict[str, int]
    refused_points: list[RefusedPoint]
    doubts: list[str]
    restored: bool | None
    goes_on: bool
    numbers: dict[str, float]
    images: tuple[ImageFile, ...] = ()
    stacks: tuple[CountedStack, ...] = ()
    measured: bool = False


def outcome_of(session: BaseSession) -> SessionOutcome:
    """The outcome of a session until now."""
    drain = session.drain
    figures: dict[str, float] = {
        "records": session.records,
        "drops": drain.drops(),
        "lost": drain.lost(),
        "nested": drain.nested(),
        "corrupt": drain.corrupt,
        "asked": session.totals.asked,
        "activation": session.totals.activation,
    }
    return SessionOutcome(
        session.code.who, session.rows, session.counts(), session.tactics(), session.refusals(),
        session.refused_points(), session.doubts(), session.restored, session.goes_on, figures,
        session.images, tuple(session.stacks()), is_measured(session),
    )  # fmt: skip


def numbers(parts: Sequence[SessionOutcome], tactics: Mapping[str, int], refusals: Mapping[str, int]) -> dict[str, Any]:
    def total(name: str) -> int:
        return int(sum(part.numbers[name] for part in parts))

    return {
        **{name: total(name) for name in ("records", *_LOST, "asked")},
        "spliced": sum(tactics.values()),
        "refused": sum(refusals.values()),
        "activation_ms": 1000 * sum(part.numbers["activation"] for part in parts),
    }


def remarks_on_doubts(parts: Sequence[SessionOutcome]) -> list[str]:
    """Remarks about figures that are not known, because a program wrote into gilk's memory."""
    told = ["; ".join(part.doubts) for part in parts if part.doubts]
    return [f"stream-corrupt: the program wrote into gilk's own memory, so it is not known {doubts}" for doubts in told]


def restored_of(parts: Sequence[SessionOutcome], note: Callable[[str], object]) -> bool | None:
    """Whether all code is what it was; None if that is not known yet. ``note`` is called with the reasons if it is not
    True."""
    changed = dict.fromkeys(part.who for part in parts if not part.goes_on and part.restored is not True)
    if changed:
        note(f"the code of {', '.join(changed)} could not be compared with, or is not, what it was: gilk restore "
             "takes what is gilk's out of a process")  # fmt: skip
        return False
    compared = {part.who for part in parts if not part.goes_on}  # targets that this run's last session has compared
    shared = list(dict.fromkeys(part.who for part in parts if part.goes_on and part.who not in compared))
    for who in shared:
        note(f"{who} has probes of other sessions: its code is compared when the last ends")
    return None if shared else True
