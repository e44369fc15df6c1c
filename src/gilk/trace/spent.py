# SPDX-License-Identifier: LGPL-2.1-or-later
"""The time that probes have taken of the programs in which they are: the hits of each, times what a hit costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from gilk.trace.probes import RecordKind
from gilk.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

#: By the kind of a record, the instrument whose hit it tells of. The return of a timed call is no hit of its own.
INSTRUMENT: Final = {
    RecordKind.STAMP: "stamp", RecordKind.ARGS: "args", RecordKind.REGS: "regs", RecordKind.ENTRY: "time",
    RecordKind.HEAD: "time",
}  # fmt: skip
_MOST: Final = 200  # the most points that are told of one by one


@dataclass(frozen=True)
class HitCosts:
    """The time that a hit takes, in ns, by the names of the built-in instruments. A hit of ``time`` is a call: its
    entry and its return.
    """

    ns: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ProbeCost:
    """The cost of one instrument at one point. ``each``: what a hit takes, in ns, as measured elsewhere."""

    point: str
    instrument: str
    hits: int
    each: float

    @property
    def ns(self) -> float:
        return self.hits * self.each


@dataclass(frozen=True)
class Spent:
    """The cost of a run. ``probes``: the most costly first. ``unknown``: how many points have instruments whose cost
    was not measured: C, stacks, conditions, and all in a kernel. ``each``: ns a hit, by instrument. ``seconds``: the
    duration of the run.
    """

    probes: Sequence[ProbeCost]
    unknown: int
    each: Mapping[str, float]
    seconds: float

    @property
    def ns(self) -> float:
        """The time that all hits have taken, in ns."""
        return sum(one.ns for one in self.probes)

    @property
    def share(self) -> float:
        """The part of one processor that the hits have taken; more than 1 if several threads were hit at a time."""
        return self.ns / 1e9 / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        """The cost as JSON values, with the ``_MOST`` most costly points."""
        return {
            "ns": round(self.ns),
            "share": round(self.share, 6),
            "unknown": self.unknown,
            "each_ns": dict(self.each),
            "points": [
                {"point": one.point, "instrument": one.instrument, "hits": one.hits, "each_ns": one.each,
                 "ns": round(one.ns)}
                for one in self.probes[:_MOST]
            ],
        }  # fmt: skip


class RecordTally:
    """The numbers of the records that tell of hits, by point and instrument; ``add`` takes the samples of a run."""

    def __init__(self) -> None:
        self.hits: Counter[tuple[str, str]] = Counter()

    def add(self, samples: pa.Table) -> None:
        if not samples.num_rows:
            return
        found = samples.select(["point", "kind"]).group_by(["point", "kind"]).aggregate([([], "count_all")])
        for row in found.to_pylist():
            if row["kind"] in INSTRUMENT:
                self.hits[row["point"], INSTRUMENT[row["kind"]]] += row["count_all"]
