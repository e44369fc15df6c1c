# SPDX-License-Identifier: LGPL-2.1-or-later
"""Places at which several probes fire, and whether the program tells the probes apart."""

from __future__ import annotations

from pathlib import Path

from gilk.engines.dtrace.enabling import Enabled
from gilk.engines.dtrace.instruments import Instruments, instruments
from gilk.lang import ir
from gilk.lang.d.probes import Key
from gilk.lang.facts import Facts
from gilk.lang.machine import SyscallArg, SyscallNumber
from gilk.lang.to_c.sites import FORGET, NOTE, ClauseEntry
from gilk.providers.probe import ProbeSite, ProcessProbe
from gilk.splice.points import Point
from gilk.targets.base import Loaded

LIBRARY = Loaded(Path("/lib/libc.so"), 0, 0, 4096, main=False)
CHOICE = ir.Given((SyscallArg(0),), select=SyscallNumber(left=False))


def site(given: ir.Given, value: int, after: bool = False) -> ProbeSite:
    return ProbeSite(LIBRARY, 16, Point("libc.so", "f", "+0x4", 20, after), given, value=value)


def made(rows: list[tuple[Key, ProbeSite]], used: Facts | None = None) -> Instruments:
    enabled = Enabled()
    for key, where in rows:
        probe, _ = enabled.number(key)
        enabled.in_process.append((probe, ProcessProbe(key, (where,))))
        enabled.clauses[probe.number] = [1]
    return instruments(enabled, [(1,)], {1: used or Facts()})


def cases(found: Instruments) -> list[tuple[tuple[int, int], ...]]:
    return [row.kind.cases for row in found.rows if isinstance(row.kind, ClauseEntry)]


def test_probes_of_different_system_calls_at_one_place_share_a_choice() -> None:
    rows = [(("syscall", "", name, "entry"), site(CHOICE, value)) for name, value in (("read", 0), ("write", 1))]
    assert cases(made(rows)) == [((0, 10001), (1, 10002))]


def test_two_probes_of_one_system_call_are_separate_choices() -> None:
    """The probes' arguments differ, but no clause reads them; everything else done there is the same."""
    other = ir.Given((ir.Constant(SyscallArg(0).type, 1),), select=CHOICE.select)
    rows = [(("syscall", "", "exit", "entry"), site(CHOICE, 60)), (("proc", "", "", "exit"), site(other, 60))]
    assert cases(made(rows)) == [((60, 10001),), ((60, 10002),)]


def test_the_system_call_number_is_kept_until_the_call_returns() -> None:
    leaving = ir.Given((), select=SyscallNumber(left=True))
    found = made([(("syscall", "", "read", "return"), site(leaving, 0, after=True))])
    assert [(row.kind, row.site.point.after) for row in found.rows][::2] == [(NOTE, False), (FORGET, True)]


def test_an_unavailable_argument_refuses_only_clauses_that_read_it() -> None:
    rows = [(("marked1", "", "f", "mark"), site(ir.Given((SyscallArg(0), None)), 0))]
    assert list(made(rows, Facts(arguments=frozenset((0, 1)))).refused.values()) == [
        "arg1 is where it cannot be fetched from"
    ]
    assert made(rows, Facts(arguments=frozenset((0,)))).refused == {}
