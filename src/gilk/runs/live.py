# SPDX-License-Identifier: LGPL-2.1-or-later
"""A run that is watched while it goes on: its counts, and the times of its calls, as they are now.

It keeps no records.
"""

from __future__ import annotations

from dataclasses import field

import pyarrow as pa

from gilk.runs.outcome import added
from gilk.runs.run import Run
from gilk.trace.calls import CallTable
from gilk.trace.latencies import Latencies
from gilk.values import dataclass


@dataclass
class LiveRun(Run):
    latencies: Latencies = field(default_factory=Latencies)

    def counts(self) -> dict[str, int]:
        """Hits of every counting point that is in."""
        return added([session.counts() for session in self.sessions])

    def tactics_by_point(self) -> dict[str, str]:
        """By the names of points; those that were refused are not among them."""
        probes = [probe for session in self.sessions for probe in session.probes]
        return {probe.row.point: str(probe.tactic) for probe in probes if probe.tactic is not None}

    def refusals_by_point(self) -> dict[str, str]:
        return {each.point: each.reason for session in self.sessions for each in session.refused_points()}

    def _drain(self) -> float:
        """Some of the records are always made samples of, however fast they come: somebody wants to see them now."""
        wait = super()._drain()
        for session in self.sessions:
            if session.waiting:
                self._keep(session.convert())
        return wait

    def _keep(self, table: pa.Table) -> None:
        self.latencies.add(table)

    def _calls(self) -> CallTable | None:
        return None
