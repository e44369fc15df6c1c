# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes that live in the process: the places in its code where one fires, and what there is to know at each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gilk.lang.d.probes import Description, Key
from gilk.splice.points import Point
from gilk.target.base import Loaded
from gilk.target.process import Process
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Site:
    """``part``: where the part of the function begins that ``point`` lies in, link-time. ``arguments``: C for arg0 and
    so on, in which ``regs`` is the machine's state and ``start`` what is given here; None for one that cannot be had.
    ``function``: one begins or ends there, and its return address is on top of the stack. ``select``: C that has to be
    ``value`` for the probe to fire; empty where it always does. ``condition``: what has to hold besides. ``error``: C
    for errno.
    """

    loaded: Loaded
    part: int
    point: Point
    arguments: tuple[str | None, ...]
    start: int = 0
    function: bool = False
    select: str = ""
    value: int = 0
    condition: str = ""
    error: str = "0"


@dataclass(frozen=True, slots=True)
class Semaphore:
    """A 16-bit counter in the process, in memory of the file ``path``, of who listens to a probe."""

    address: int
    path: str


@dataclass(frozen=True, slots=True)
class ProcessProbe:
    """It fires at each of ``sites``, while whose ``semaphores`` are taken up by one."""

    key: Key
    sites: tuple[Site, ...]
    semaphores: frozenset[Semaphore] = frozenset()


#: Makes the probes that a description means: none when it is about something else.
Provider = Callable[[Process, Description], Iterator[ProcessProbe]]
