# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes that live in a process: the places in its code where each fires, and the arguments that each place gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gilk.lang.d.probes import Description, Key
from gilk.lang.ir import Given
from gilk.splice.points import Point
from gilk.targets.base import Loaded, Target
from gilk.targets.call_ends import SiteRole
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class ProbeSite:
    """A place where a probe fires. ``part``: the link-time start of the part of the function in which ``point`` lies;
    ``start``: the run-time start of the whole function. ``given``: what the place gives; sites share one object where
    they can, because comparing two takes long. If ``given`` selects among several probes, this one fires for
    ``value``. ``lost``: the reason why the clauses cannot have there what they name, "" if they can. ``role``: what is
    done there, if it is not that the probe fires."""

    loaded: Loaded
    part: int
    point: Point
    given: Given
    start: int = 0
    value: int = 0
    lost: str = ""
    role: SiteRole = SiteRole.FIRES


@dataclass(frozen=True, slots=True)
class Semaphore:
    """A 16-bit counter of the listeners to a probe, in the process, in memory of the file ``path``."""

    address: int
    path: str


@dataclass(frozen=True, slots=True)
class ProcessProbe:
    """A probe that fires at each of ``sites``; its ``semaphores`` have to be raised for that. ``calls``: the sites are
    those at which the function at their start is left, and the probe is meant to fire when its calls are over."""

    key: Key
    sites: tuple[ProbeSite, ...]
    semaphores: frozenset[Semaphore] = frozenset()
    calls: bool = False


#: Makes the probes that a description means; none if it is about another provider.
Provider = Callable[[Target, Description], Iterator[ProcessProbe]]
