# SPDX-License-Identifier: LGPL-2.1-or-later
"""The growth of distributions while a session runs: of the aggregations of a D program, with their present rows and the
values of others over time, and of the times of calls."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gilk.api.dtrace import events
from gilk.render.d.as_json import snapshot

Json = dict[str, Any]
MOST_ROWS: Final = 50  # the most rows of an aggregation; the last ones are kept, which are the largest
MOST_GROWING: Final = 4  # the number of rows of an aggregation whose growth is kept
MOST_STACKS: Final = 100  # the most rows of an aggregation by stacks, of which a flame graph is made
_LATENCY_LOOKS: Final = 1.0  # the seconds between two looks at the times of calls
TIMES: Final = 60  # the number of looks that are kept for each row
_DISTRIBUTIONS: Final = ("quantize", "lquantize", "llquantize")
_LINES: Final = ("min", "max", "avg", "stddev", "sum")  # the functions whose values are drawn as lines over time


class Growth:
    """The last looks at distributions and values, each of which has a key."""

    def __init__(self) -> None:
        self._before: dict[str, Mapping[int, int]] = {}
        self._times: dict[str, deque[Json]] = {}

    def begun(self, key: str, now: Mapping[int, int]) -> None:
        """Count what comes to a distribution from now on."""
        self._before[key] = now

    def grown(self, key: str, now: Mapping[int, int], seconds: float) -> list[Json]:
        """The counts since each look, by the start of the bucket. If the distribution has been cleared, all counts are
        new.
        """
        before = self._before.get(key, {})
        cleared = any(now.get(value, 0) < count for value, count in before.items())
        more = {value: count - (0 if cleared else before.get(value, 0)) for value, count in now.items()}
        self._before[key] = now
        found = [[value, count] for value, count in more.items() if count]
        return self.noted(key, {"seconds": round(seconds, 1), "more": found})

    def noted(self, key: str, look: Json) -> list[Json]:
        """Keep a look; returns the last ones, in order of time."""
        self._times.setdefault(key, deque(maxlen=TIMES)).append(look)
        return self.times(key)

    def times(self, key: str) -> list[Json]:
        """The last looks, in order of time."""
        return list(self._times.get(key, ()))


class GrowingLatencies:
    """Follows the times of calls: looks at them once a second."""

    def __init__(self) -> None:
        self._growth, self._looked = Growth(), 0.0
        self._names = set[str]()

    def of(self, found: Json, seconds: float) -> Json:
        """The times of calls by function, as host.py has them; those with most calls also with ``times``: how many
        calls each look since has found ``more``, by the number of bits of their ns.
        """
        names = sorted(found, key=lambda name: -found[name]["calls"])[:MOST_GROWING]
        if not self._looked or seconds - self._looked >= _LATENCY_LOOKS:
            for name in names:
                self._look(name, found[name]["octaves"], seconds)
            self._looked = seconds
        return {name: {**each, "times": self._growth.times(name)} for name, each in found.items()}

    def _look(self, name: str, octaves: Sequence[int], seconds: float) -> None:
        """Look at a function; one that was not among those with most calls at the first look begins now."""
        now = {bits: count for bits, count in enumerate(octaves) if count}
        if name not in self._names and self._looked:
            self._growth.begun(name, now)
        self._names.add(name)
        self._growth.grown(name, now, seconds)


class GrowingAggregations:
    """Follows aggregations: ``take`` is called with their present contents again and again; ``shown`` returns what a
    page shows.
    """

    def __init__(self) -> None:
        self._now: dict[str, Json] = {}
        self._growth = Growth()

    def take(self, found: Sequence[events.Snapshot], seconds: float) -> None:
        """Take the contents of all aggregations at the time ``seconds``."""
        self._now = {name: made for each in found for name, made in [_of_one(each)] if name}
        for name, made in self._now.items():
            for row in made["rows"][-MOST_GROWING:]:
                key, (value, *_) = f"{name} {json.dumps(row['keys'])}", row["values"]
                if made["function"] in _DISTRIBUTIONS:
                    counts = {bucket["value"]: bucket["count"] for bucket in value["distribution"] if bucket["count"]}
                    row["times"] = self._growth.grown(key, counts, seconds)
                elif made["function"] in _LINES:
                    row["times"] = self._growth.noted(key, {"seconds": round(seconds, 1), "value": value})

    def finish(self, found: events.Snapshot) -> None:
        """Take an aggregation that is printed at the end, after which nothing is counted."""
        name, made = _of_one(found)
        for row in made.get("rows", ()):
            row["times"] = self._growth.times(f"{name} {json.dumps(row['keys'])}")
        if name:
            self._now[name] = made

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
