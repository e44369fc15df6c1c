# SPDX-License-Identifier: LGPL-2.1-or-later
"""Live runs, in processes or in a kernel: their counts, and the times of their calls, are shown while they go on.

They keep no records.
"""

from __future__ import annotations

from dataclasses import field

import pyarrow as pa

from gilk.runs.guest import KernelGuest
from gilk.runs.outcome import added
from gilk.runs.run import Run
from gilk.trace.calls import CallTable
from gilk.trace.latencies import Latencies
from gilk.values import dataclass


@dataclass
class LiveRun(Run):
    latencies: Latencies = field(default_factory=Latencies)

    def counts(self) -> dict[str, int]:
        """The hits of every counting point that is in, by its name."""
        return added([session.counts() for session in self.sessions])

    def tactics_by_point(self) -> dict[str, str]:
        """The tactic that put each point in, by the point's name; refused points are missing."""
        probes = [probe for session in self.sessions for probe in session.probes]
        return {probe.row.point: str(probe.tactic) for probe in probes if probe.tactic is not None}

    def refusals_by_point(self) -> dict[str, str]:
        return {each.point: each.reason for session in self.sessions for each in session.refused_points()}

    def _drain(self) -> float:
        """Drain as usual, but always convert some of the records, however fast they come: they are shown at once."""
        wait = super()._drain()
        for session in self.sessions:
            if session.waiting:
                self._keep(session.convert())
        return wait

    def _keep(self, table: pa.Table) -> None:
        self.latencies.add(table)

    def _calls(self) -> CallTable | None:
        return None


@dataclass
class KernelLiveRun(KernelGuest, LiveRun):
    """A live run in a kernel that is there before it and after it."""
