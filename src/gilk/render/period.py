# SPDX-License-Identifier: LGPL-2.1-or-later
"""A period of a run, as lines of text and as one JSON object."""

from __future__ import annotations

from typing import Any

from gilk.render.names import with_names
from gilk.render.report import losses, top_counts
from gilk.render.text import plural
from gilk.trace.period import Period
from gilk.trace.probes import by_function


def to_text(period: Period) -> str:
    """The time, then the points that were hit, most hits first, and records. Ends with a newline."""
    parts = [plural(period.records, "record")] * bool(period.records) + losses(period.drops, 0, 0, 0)
    heading = f"after {period.at:.1f} s" + "".join(f", {part}" for part in parts)
    return f"{heading}\n{top_counts(by_function(period.counts))}"


def to_json(period: Period) -> dict[str, Any]:
    """The period as JSON; ``after`` is in seconds."""
    return with_names(
        {
            "after": round(period.at, 3),
            "counts": dict(period.counts),
            "records": period.records,
            "drops": period.drops,
        }
    )
