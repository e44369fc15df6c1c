# SPDX-License-Identifier: LGPL-2.1-or-later
"""Live runs with strategies, or with instruments that have their own times: the state of each instrument is shown."""

from __future__ import annotations

from typing import Any

from gilk.runs.experiment.items import Deployment, ItemState, refused_points
from gilk.runs.experiment.run import Staged
from gilk.runs.guest import KernelGuest
from gilk.runs.live import LiveRun
from gilk.values import dataclass


@dataclass
class StagedLiveRun(LiveRun, Staged):
    """A live run with ``items`` in place of ``requests``."""

    def tactics_by_point(self) -> dict[str, str]:
        """As for every live run, of all probes that have been in."""
        probes = [probe for placed in self.placed for probe in placed.probes]
        return {probe.row.point: str(probe.tactic) for probe in probes if probe.tactic is not None}

    def refusals_by_point(self) -> dict[str, str]:
        return {each.point: each.reason for placed in self.placed for each in refused_points(placed.probes)}

    def stages(self) -> dict[str, Any]:
        """The states of the instruments, and the counts of edges, as JSON values: `happened`, without the refused
        points, and with the `pauses`."""
        found = self.happened()
        told = [{**each, "refused_points": []} for each in found["instruments"]]
        return {**found, "instruments": told, "pauses": self.pauses}

    def _is_due(self, placed: Deployment, now: float) -> bool:
        """As always, but while it is paused nothing is put in: that is due at its end."""
        return super()._is_due(placed, now) and not (self.is_paused and placed.state is ItemState.WAITING)

    @property
    def is_spent(self) -> bool:
        """Whether all instruments have been in and are out again, while their targets go on."""
        return not self._presence.ended and all(placed.state is ItemState.OUT for placed in self.placed)


@dataclass
class KernelStagedLiveRun(KernelGuest, StagedLiveRun):
    """The same in a kernel that is there before it and after it."""
