# SPDX-License-Identifier: LGPL-2.1-or-later
"""The file systems that a process sees, as a library of D: inlines by the number of a mount."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from gilk.engines.dtrace import halves
from gilk.lang.d import literals
from gilk.targets.program import mounts_of
from gilk.values import dataclass

_ESCAPED = re.compile(rb"\\([0-7]{3})")
_MOST = 1000


@dataclass(frozen=True, slots=True)
class Mount:
    number: int
    point: str
    kind: str


def mounts(pid: int) -> list[Mount]:
    """The mounts that the process sees at the moment, by number (proc(5), mountinfo); at most _MOST."""
    rows: list[Mount] = []
    with suppress(OSError):
        rows = [_mount(line) for line in mounts_of(pid)]
    return sorted(rows, key=lambda mount: mount.number)[:_MOST]


def _mount(line: bytes) -> Mount:
    fields = line.split(b" ")
    kind = fields[fields.index(b"-") + 1]
    return Mount(int(fields[0]), _text(fields[4]), _text(kind))


def _text(field: bytes) -> str:
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), field).decode("utf-8", "surrogateescape")


def library(known: Sequence[Mount]) -> str:
    """The text of the library: inlines that look a mount's number up."""
    points = _chosen([(mount.number, literals.quoted(mount.point)) for mount in known], '"<unknown>"')
    kinds = _chosen([(mount.number, literals.quoted(mount.kind)) for mount in known], '"<unknown>"')
    there = _chosen([(mount.number, "1") for mount in known], "0")
    return (
        f"inline string mount_point[int N] = {points};\n"
        f"inline string mount_kind[int N] = {kinds};\n"
        f"inline int mount_is_known[int N] = {there};\n"
    )


def _chosen(rows: Sequence[tuple[int, str]], other: str) -> str:
    return halves.chosen([(number, f"(N == {number} ? {value} : {other})") for number, value in rows] or [(0, other)])
