# SPDX-License-Identifier: LGPL-2.1-or-later
"""The programs that the processes of a followed tree have executed, and the hits and records of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field

from gilk.values import dataclass


@dataclass(frozen=True)
class ProgramOutcome:
    """A program that process ``pid`` has executed; children that the process has forked, and that have executed none
    themselves, count with it. ``path`` is its file.

    ``slug`` and ``message`` say why nothing of it was seen, and are empty if it was; a program whose ``points`` is 0
    has none of the points that were asked for.
    """

    pid: int
    path: str
    points: int = 0
    records: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    slug: str = ""
    message: str = ""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2] or self.path


def by_name(programs: Iterable[ProgramOutcome]) -> dict[str, Counter[str]]:
    """The number of hits of each point, by the name of the program."""
    found: dict[str, Counter[str]] = {}
    for one in programs:
        found.setdefault(one.name, Counter()).update(one.counts)
    return found
