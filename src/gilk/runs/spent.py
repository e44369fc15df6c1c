# SPDX-License-Identifier: LGPL-2.1-or-later
"""The time that the probes of a run have taken of its processes: the hits of each, times what a hit costs on this
machine (runs/costs.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gilk.session.base import BaseSession
from gilk.session.broker.client_session import ClientSession
from gilk.trace.probes import ProbeRow, RecordKind
from gilk.trace.spent import INSTRUMENT, HitCosts, ProbeCost, RecordTally, Spent


def spent(sessions: Sequence[BaseSession], tally: RecordTally, costs: HitCosts, seconds: float) -> Spent:
    """The cost of the sessions until now."""
    hits = tally.hits.copy()
    for session in sessions:
        if isinstance(session, ClientSession):
            hits.update({(point, "count"): count for point, count in session.counts().items()})
    found = [ProbeCost(point, what, number, costs.ns[what]) for (point, what), number in hits.items()]
    unknown = len(set(_unknown(sessions)))
    return Spent(sorted(found, key=lambda one: (-one.ns, one.point)), unknown, _used(sessions, costs), seconds)


def _unknown(sessions: Iterable[BaseSession]) -> Iterator[str]:
    """The points that have instruments whose cost was not measured."""
    for session in sessions:
        yield from (row.point for row in session.rows if _instrument(session, row) is None)


def _used(sessions: Iterable[BaseSession], costs: HitCosts) -> dict[str, float]:
    """The time that a hit takes, in ns, by the instruments that the sessions have."""
    used = {_instrument(session, row) for session in sessions for row in session.rows}
    return {name: ns for name, ns in costs.ns.items() if name in used}


def _instrument(session: BaseSession, row: ProbeRow) -> str | None:
    """The name of a probe's instrument; None if its cost was not measured."""
    if not isinstance(session, ClientSession):
        return None
    if row.kind in (RecordKind.COUNT, RecordKind.RETURN):
        return "count" if row.kind == RecordKind.COUNT else "time"
    return INSTRUMENT.get(RecordKind(row.kind))
