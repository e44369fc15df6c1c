# SPDX-License-Identifier: LGPL-2.1-or-later
"""The probes of a session, as rows, which give names to the numbers in records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from gilk.errors import StoreError
from gilk.values import dataclass

_SAID = 4  # the most places that a sentence names
_INLINED, _UNDER = "inlined at", "as"
_ELSEWHERE = re.compile(rf"(?<=:entry) \((?:{_INLINED}|{_UNDER}) .*\)")


class RecordKind(StrEnum):
    """The kind of records that a probe writes.

    Only `OTHER`, a C instrument, may write records of several kinds. `HEAD` is an entry to which the function itself
    jumps back, recorded once a round. `GAP` belongs to no probe: it is a sample that says that records of its thread
    before it were dropped.
    """

    COUNT = "count"
    STAMP = "stamp"
    ENTRY = "time-entry"
    HEAD = "time-head"
    RETURN = "time-return"
    ARGS = "args"
    REGS = "regs"
    STACK = "stack"
    INTEGER = "integer"
    TEXT = "text"
    OTHER = "other"
    GAP = "gap"
    PROGRAM = "program"  # belongs to no probe either: see trace/executed.py


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """A probe. `point` is its label, as a user would write it; `iid` is the number in its records, 0 if it writes none;
    `counter` is the index of its counter, -1 if it has none. `arguments`: a bit for each argument that its records
    have, if they have arguments. `address`: the link-time address of the function, or of the point if the function is
    inlined there; -1 if it is not known.
    """

    iid: int
    point: str
    function: str
    image: str
    kind: str
    counter: int = -1
    arguments: int = 63
    address: int = -1


@dataclass(frozen=True, slots=True)
class RefusedPoint:
    """A refused point, as a user would write it, and the reason (docs/refusals.md)."""

    point: str
    reason: str


def distinct_refusals(refused: Iterable[tuple[str, object]]) -> list[RefusedPoint]:
    """The refused points, from pairs of point and reason, in their order; each pair once."""
    return list(dict.fromkeys(RefusedPoint(point, str(reason)) for point, reason in refused))


def inlined_at(place: str) -> str:
    """The WHERE of the beginning of an inlined function: ``entry (inlined at main:+0x1f)``."""
    return f"entry ({_INLINED} {place})"


def left_at(place: str) -> str:
    """The WHERE of the end of an inlined function that begins at ``place``."""
    return f"return ({_INLINED} {place})"


def under_name(name: str) -> str:
    """The WHERE of the entry that a function has under another name: ``entry (as f.constprop.0)``."""
    return f"entry ({_UNDER} {name})"


def by_function(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts by point, with those of inlined instances added to the count of the function's own entry, whose name
    then says so: ``prog:f:entry, inlined in 2 places``.
    """
    if not any(" (" in point for point in counts):
        return dict(counts)
    names = {point: _ELSEWHERE.sub("", point) for point in counts}
    places: dict[str, int] = {}
    for point, name in names.items():
        places[name] = places.get(name, 0) + int(name != point and f" ({_INLINED} " in point)
    summed: dict[str, int] = {}
    for point, name in names.items():
        how = "also inlined" if name in counts else "inlined"
        more = f", {how} in {places[name]} place{'s' if places[name] > 1 else ''}" if places[name] else ""
        summed[name + more] = summed.get(name + more, 0) + counts[point]
    return summed


@dataclass(frozen=True, slots=True)
class Inlined:
    """A function whose code is also a part of others, in `places` places; `at` has the places, as points are written.
    `complete` is False if there may be more.
    """

    function: str
    image: str
    places: int
    at: tuple[str, ...] = ()
    complete: bool = True

    def __str__(self) -> str:
        return f"{self.function} of {self.image} is also inlined {self.where}"

    @property
    def where(self) -> str:
        """The places in words: `in 5 places (main:+0x12, work:+0x40 and 3 more)`."""
        count = f"{self.places}" if self.complete else f"at least {self.places}"
        more = f" and {self.places - _SAID} more" if self.places > _SAID < len(self.at) else ""
        return f"in {count} place{'s' if self.places > 1 else ''} ({', '.join(self.at[:_SAID])}{more})"


def counts_by_point(probes: Iterable[ProbeRow], counters: Sequence[int]) -> dict[str, int]:
    """The counters by point, summed if several probes have one point."""
    counts: dict[str, int] = {}
    for probe in probes:
        if 0 <= probe.counter < len(counters):
            counts[probe.point] = counts.get(probe.point, 0) + int(counters[probe.counter])
    return counts


def to_json(probes: Iterable[ProbeRow]) -> list[dict[str, Any]]:
    return [{name: getattr(probe, name) for name in ProbeRow.__slots__} for probe in probes]


def from_json(rows: Any) -> tuple[ProbeRow, ...]:
    """The rows that to_json() gave. Raises StoreError `bad-trace` for anything else."""
    types: dict[str, type] = dict.fromkeys(("point", "function", "image", "kind"), str)
    types |= dict.fromkeys(("iid", "counter", "arguments", "address"), int)
    try:
        probes = tuple(ProbeRow(**row) for row in rows)
        assert all(isinstance(getattr(probe, name), kind) for probe in probes for name, kind in types.items())
    except (TypeError, AssertionError) as error:
        raise StoreError("bad-trace", f"its list of probes is not valid: {error}") from error
    return probes
