# SPDX-License-Identifier: LGPL-2.1-or-later
"""Find differences between plain runs and runs under gilk, and look up their known reasons in the table
reasons.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from .oracle import Bounds
from .running import Ended

_SHOWN = 5  # counters of a difference that are printed


@dataclass(frozen=True)
class Difference:
    """A difference between a plain run and a run under gilk. ``what`` is status, stdout, stdout-order, stderr,
    stderr-order, counts, restored, left, report or deadline."""

    way: str
    what: str
    detail: str
    reason: str = ""


@dataclass(frozen=True)
class Reason:
    """A known reason (``why``) for differences whose suite, program, flags, way and what match these globs."""

    suite: str
    program: str
    flags: str
    way: str
    what: str
    why: str


def reasons(path: Path) -> list[Reason]:
    """The reasons in the file. Raises OSError, tomllib.TOMLDecodeError, and TypeError for a row with unknown fields."""
    rows = tomllib.loads(path.read_text()).get("reason", [])
    anything = dict.fromkeys(("suite", "program", "flags", "way", "what"), "*")
    return [Reason(**{**anything, **row}) for row in rows]


def explained(found: Difference, suite: str, program: str, flags: str, known: list[Reason]) -> Difference:
    for each in known:
        pairs = ((suite, each.suite), (program, each.program), (flags, each.flags), (found.way, each.way))
        if all(fnmatchcase(value, glob) for value, glob in (*pairs, (found.what, each.what))):
            return Difference(found.way, found.what, found.detail, each.why)
    return found


def unsteady(first: Ended, second: Ended) -> frozenset[str]:
    """The aspects in which two plain runs differ; they cannot be compared with runs under gilk."""
    return frozenset(each.what for each in _ends("", first, second))


def ends(way: str, plain: Ended, found: Ended, but: frozenset[str]) -> Iterator[Difference]:
    """The differences in how a run ended and in what it wrote, except those named in ``but``."""
    kinds = but | {f"{each}-order" for each in but} | {each.removesuffix("-order") for each in but}
    yield from (each for each in _ends(way, plain, found) if each.what not in kinds)
    if found.left and not plain.left and found.status is not None:
        yield Difference(way, "left", f"processes left behind: {', '.join(found.left)}")


def _ends(way: str, plain: Ended, found: Ended) -> Iterator[Difference]:
    if found.status is None:
        yield Difference(way, "deadline", f"not done in {found.seconds:.0f} s, plainly in {plain.seconds:.1f} s")
        return
    if _status(plain.status) != _status(found.status):
        yield Difference(way, "status", f"{plain.status} plainly, {found.status}: {found.err[-300:]!r}")
    for name, a, b in (("stdout", plain.out, found.out), ("stderr", plain.err, found.err)):
        if a != b:
            order = "-order" if sorted(a.splitlines(True)) == sorted(b.splitlines(True)) else ""
            yield Difference(way, name + order, _first_difference(a, b))


def _status(status: int | None) -> int | None:
    """The status as a shell gives it, 128 + N for signal N, so that both notations compare equal."""
    return status if status is None or status >= 0 else 128 - status


def _first_difference(a: bytes, b: bytes) -> str:
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = max(at - 20, 0)
    return f"at byte {at}: {a[start : at + 60]!r}, {b[start : at + 60]!r}"


@dataclass(frozen=True)
class Spot:
    """The place of a point. ``kind`` is "rep" before an instruction with a repeat prefix, "post" after an
    instruction, else ""."""

    address: int
    kind: str


def counts(way: str, found: Mapping[str, int], spots: Mapping[str, Spot], oracle: Bounds) -> Iterator[Difference]:
    """The counters that contradict the oracle. It counts each round of a repeated instruction, so for these the test
    is only whether they ran."""
    wrong = []
    for label, count in found.items():
        spot = spots[label]
        least, most = oracle.least[spot.address], oracle.most[spot.address]
        same = bool(count) == bool(most) if spot.kind == "rep" else least <= count <= most
        if not same:
            by_oracle = str(most) if least == most else f"{least} to {most}"
            wrong.append(f"{label}: {count}, {by_oracle} by callgrind")
    if wrong:
        yield Difference(way, "counts", f"{len(wrong)} of {len(found)}: " + "; ".join(wrong[:_SHOWN]))
