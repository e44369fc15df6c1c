# SPDX-License-Identifier: LGPL-2.1-or-later
"""The aggregations of a D program while it runs: their present rows, the growth of distributions, and the values of
others over time."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from gilk.api.dtrace import events
from gilk.render.d.as_json import snapshot

Json = dict[str, Any]
MOST_ROWS: Final = 50  # the most rows of an aggregation; the last ones are kept, which are the largest
MOST_GROWING: Final = 4  # the number of rows of an aggregation whose growth is kept
MOST_STACKS: Final = 100  # the most rows of an aggregation by stacks, of which a flame graph is made
TIMES: Final = 60  # the number of looks that are kept for each row
_DISTRIBUTIONS: Final = ("quantize", "lquantize", "llquantize")
_LINES: Final = ("min", "max", "avg", "stddev", "sum")  # the functions whose values are drawn as lines over time


class GrowingAggregations:
    """Follows aggregations: ``take`` is called with their present contents again and again; ``shown`` returns what a
    page shows.
    """

    def __init__(self) -> None:
        self._now: dict[str, Json] = {}
        self._before: dict[str, dict[int, int]] = {}
        self._times: dict[str, deque[Json]] = {}

    def take(self, found: Sequence[events.Snapshot], seconds: float) -> None:
        """Take the contents of all aggregations at the time ``seconds``."""
        self._now = {name: made for each in found for name, made in [_of_one(each)] if name}
        for name, made in self._now.items():
            for row in made["rows"][-MOST_GROWING:]:
                key, (value, *_) = f"{name} {json.dumps(row['keys'])}", row["values"]
                if made["function"] in _DISTRIBUTIONS:
                    row["times"] = self._grown(key, value["distribution"], seconds)
                elif made["function"] in _LINES:
                    row["times"] = self._noted(key, {"seconds": round(seconds, 1), "value": value})

    def finish(self, found: events.Snapshot) -> None:
        """Take an aggregation that is printed at the end, after which nothing is counted."""
        name, made = _of_one(found)
        for row in made.get("rows", ()):
            row["times"] = list(self._times.get(f"{name} {json.dumps(row['keys'])}", ()))
        if name:
            self._now[name] = made

    def _grown(self, key: str, buckets: list[Json], seconds: float) -> list[Json]:
        """The counts since each look, by the start of the bucket. If the program has cleared the aggregation, all
        counts are new.
        """
        now = {bucket["value"]: bucket["count"] for bucket in buckets if bucket["count"]}
        before = self._before.get(key, {})
        cleared = any(now.get(value, 0) < count for value, count in before.items())
        more = {value: count - (0 if cleared else before.get(value, 0)) for value, count in now.items()}
        self._before[key] = now
        found = [[value, count] for value, count in more.items() if count]
        return self._noted(key, {"seconds": round(seconds, 1), "more": found})

    def _noted(self, key: str, look: Json) -> list[Json]:
        """Keep a look at a row; returns the last ones, in order of time."""
        times = self._times.setdefault(key, deque(maxlen=TIMES))
        times.append(look)
        return list(times)

    def shown(self) -> list[Json]:
        return list(self._now.values())


def _of_one(found: events.Snapshot) -> tuple[str, Json]:
    """An aggregation's name and contents; '' and {} for several side by side, which printa() makes of aggregations that
    are shown here separately.
    """
    made = snapshot(found)
    if len(made["aggregations"]) != 1:
        return "", {}
    rows = made["rows"]
    about = made["aggregations"][0]
    stacks = any(isinstance(key, dict) and "stack" in key for key in (rows[0]["keys"] if rows else ()))
    most = MOST_STACKS if stacks else MOST_ROWS
    return about["name"], {**about, "rows": rows[-most:], "left_out": max(0, len(rows) - most)}
