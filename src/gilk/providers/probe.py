# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes that live in the process: the places in its code where one fires, and what there is to know at each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gilk.lang.d.probes import Description, Key
from gilk.lang.ir import Given
from gilk.splice.points import Point
from gilk.targets.base import Loaded, Target
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class ProbeSite:
    """``part``: where the part of the function begins that ``point`` lies in, link-time; ``start``: the same of the
    whole function, at run time. ``given``: places share it where they can, for to compare two takes long; where it
    selects, the probe fires for ``value``.
    """

    loaded: Loaded
    part: int
    point: Point
    given: Given
    start: int = 0
    value: int = 0


@dataclass(frozen=True, slots=True)
class Semaphore:
    """A 16-bit counter in the process, in memory of the file ``path``, of who listens to a probe."""

    address: int
    path: str


@dataclass(frozen=True, slots=True)
class ProcessProbe:
    """It fires at each of ``sites``, while whose ``semaphores`` are taken up by one."""

    key: Key
    sites: tuple[ProbeSite, ...]
    semaphores: frozenset[Semaphore] = frozenset()


#: Makes the probes that a description means: none when it is about something else.
Provider = Callable[[Target, Description], Iterator[ProcessProbe]]
