# SPDX-License-Identifier: LGPL-2.1-or-later
"""The time that the probes of a run have taken of its processes: the hits of each, times what a hit costs on this
machine (runs/costs.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gilk.session.base import BaseSession
from gilk.session.broker.client_session import ClientSession
from gilk.trace.probes import ProbeRow, RecordKind
from gilk.trace.spent import INSTRUMENT, HitCosts, ProbeCost, RecordTally, Spent


class CostedPart(NamedTuple):
    """The probes and counts of a session, which may be over.

    ``measured``: whether the costs of its built-in instruments are those that were measured, in a process.
    """

    rows: Sequence[ProbeRow]
    counts: Mapping[str, int]
    measured: bool


def is_measured(session: BaseSession) -> bool:
    """Whether the costs of the session's built-in instruments are those that were measured, in a process."""
    return isinstance(session, ClientSession)


def part_of(session: BaseSession) -> CostedPart:
    return CostedPart(session.rows, session.counts(), is_measured(session))


def spent(parts: Sequence[CostedPart], tally: RecordTally, costs: HitCosts, seconds: float) -> Spent:
    """The cost of the sessions until now."""
    hits = tally.hits.copy()
    for part in parts:
        if part.measured:
            hits.update({(point, "count"): count for point, count in part.counts.items()})
    found = [ProbeCost(point, what, number, costs.ns[what]) for (point, what), number in hits.items()]
    used = {_instrument(part, row) for part in parts for row in part.rows}
    unknown = {row.point for part in parts for row in part.rows if _instrument(part, row) is None}
    each = {name: ns for name, ns in costs.ns.items() if name in used}
    return Spent(sorted(found, key=lambda one: (-one.ns, one.point)), len(unknown), each, seconds)


def _instrument(part: CostedPart, row: ProbeRow) -> str | None:
    """The name of a probe's instrument; None if its cost was not measured."""
    if not part.measured:
        return None
    if row.kind in (RecordKind.COUNT, RecordKind.RETURN):
        return "count" if row.kind == RecordKind.COUNT else "time"
    return INSTRUMENT.get(RecordKind(row.kind))
