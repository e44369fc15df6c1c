# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions that tests of sessions on the fake share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache

from gilk.session.base import Probe
from gilk.session.request import Builtin, Request, Wanted, expand
from gilk.session.session import Session
from gilk.spec.point import parse
from gilk.trace.clock import Clock, sample
from tests.fake.program import Program
from tests.fake.programs import built
from tests.fake.target import FakeProcess

#: A clock that is not calibrated: no test looks at durations.
CLOCK = Clock(*sample(), 1.0)


def program(variant: str = "fixed", name: str = "plain") -> Program:
    """A program that is about to execute its first instruction."""
    return Program(built(name, variant))


def session(process: FakeProcess) -> Session:
    return Session(process, points=4096, threads=16, ring=1 << 16, clock=CLOCK)


def wanted(process: FakeProcess, *points: str, instrument: Builtin = Builtin.COUNT) -> list[Wanted]:
    return list(expand(process, [Request(parse(point), instrument) for point in points]))


def counts(of: Session, asked: Iterable[Wanted], probes: Iterable[Probe]) -> dict[int, int]:
    """The counts of the probes that were not refused, by address."""
    counters = of.drain.counts().tolist()
    rows = zip(asked, probes, strict=True)
    return {one.point.address + one.loaded.bias: counters[probe.number] for one, probe in rows if probe.refusal is None}


def code(one: Program) -> dict[int, bytes]:
    """The executable memory of the files, by its address."""
    found = (each for each in one.space.regions if "x" in each.rights and each.backing.inode and not each.mapping.ours)
    return {each.start: one.space.some(each.start, each.end - each.start) for each in found}


def data(one: Program) -> dict[int, bytes]:
    """The writable memory of the files, by its address."""
    found = (each for each in one.space.regions if "w" in each.rights and each.backing.path.startswith("/"))
    return {each.start: bytes(each.backing.content) for each in found if not each.mapping.ours}


def ours(one: Program) -> list[str]:
    """The paths of gilk's mappings in the program."""
    return [each.path for each in one.space.maps() if each.ours]


@cache
def alone(variant: str = "fixed", name: str = "plain") -> tuple[int, Counter[int], dict[int, bytes]]:
    """The undisturbed program: its result, how often each instruction of it is executed, and its variables at the
    end."""
    one = program(variant, name)
    one.count()
    result = one.finish()
    return result, one.executed, data(one)
