# SPDX-License-Identifier: LGPL-2.1-or-later
"""One period of a run."""

from __future__ import annotations

from collections.abc import Mapping

from gilk.values import dataclass


@dataclass(frozen=True)
class Period:
    """A period of a run. ``at`` is the time of its end, in seconds since all probes were in. The other figures are
    those of the period alone: hits by point, without points that had none; records; records that were dropped.
    """

    at: float
    counts: Mapping[str, int]
    records: int
    drops: int
