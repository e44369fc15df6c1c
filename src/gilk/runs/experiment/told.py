# SPDX-License-Identifier: LGPL-2.1-or-later
"""The use that strategies make of counts: probes are taken out after their first hit, and edges are computed from
counts of blocks."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gilk.runs.experiment.edges import Passed, told
from gilk.runs.experiment.items import Deployment, ItemState

_NAMED = 3  # how many edges or points a note names


def take_hit(placed: Deployment, zero: int) -> list[str]:
    """Take out the probes that were hit; returns notes on points that are watched no more. ``zero``: time 0, in ns.
    Raises TargetError.

    Without its neighbours, a point may need another tactic, and there may be none.
    """
    counts = placed.session.drain.counts()
    hit = [p for p in placed.probes if p.number in placed.present and counts[p.row.counter]]
    if not hit:
        return []
    began = time.monotonic_ns()
    placed.session.remove(hit)
    placed.present -= {probe.number for probe in hit}
    gone = [p for p in placed.session.probes if p.number in placed.present and p.tactic is None]
    unwatched = [p.row.point for p in gone if placed.spliced(p.number)]
    placed.present -= {probe.number for probe in gone}
    if not placed.present:
        placed.state, placed.went_out = ItemState.OUT, (began - zero, time.monotonic_ns() - zero)
    return [f"no longer watched, for they cannot be spliced without others: {_some(unwatched)}"] if unwatched else []


def edges(every: Sequence[Deployment]) -> dict[str, int | None]:
    """How often each edge was taken, in functions under the strategy `edges`; None if that cannot be told."""
    found: dict[str, int | None] = {}
    for placed in every:
        if placed.item.told_by_edges and placed.probes:
            for edge, count in told(_passed(placed)).items():
                known = found.get(edge, 0)
                found[edge] = None if known is None or count is None else known + count
    return found


def _passed(placed: Deployment) -> list[Passed]:
    counts = placed.session.drain.counts()
    return [
        Passed(w.loaded.name, w.function, w.point, int(counts[p.row.counter]) if p.tactic else None)
        for w, p in zip(placed.wanted, placed.probes, strict=True)
        if p.row.counter >= 0
    ]


def with_edges(counts: dict[str, int], every: Sequence[Deployment]) -> tuple[dict[str, int], list[str]]:
    """The counts with those of edges in place of the points that they are computed from; and notes."""
    sources = {w.point.label for placed in every for w in placed.wanted if placed.item.told_by_edges}
    others = {w.point.label for placed in every for w in placed.wanted if not placed.item.told_by_edges}
    kept = {name: count for name, count in counts.items() if name not in sources - others}
    found = edges(every)
    kept |= {edge: count for edge, count in found.items() if count is not None}
    untold = [edge for edge, count in found.items() if count is None]
    return kept, [f"how often these edges were taken cannot be told: {_some(untold)}"] if untold else []


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
