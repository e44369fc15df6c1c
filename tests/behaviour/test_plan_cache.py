# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes at very many entries whose plans come from the cache: everything is as if each were planned at once."""

from __future__ import annotations

from pathlib import Path

import pytest

import gilk
from gilk.analysis.analysis import Analysis
from gilk.engines.dtrace.asked import Asked, let_go, prepare
from gilk.engines.dtrace.tracing import Firing
from gilk.session import plan_cache, staging
from gilk.session.request import CFunction
from gilk.session.session import Session
from gilk.targets.process import Process
from tests.behaviour.harness import Loop, differences, leftovers, plain
from tests.behaviour.test_templates import HARD, ROUNDS, SINGLE, Calls, timed
from tests.programs.build import build
from tests.seldom import seldom

INSTRUMENT = """\
#include <gilk.h>

void note(unsigned int iid)
{
	ilk_log_integer_sample(iid, iid);
}
"""
#: Programs with only such functions as have room, and plans that do not depend on which others are in force.
MANY = build("many", "n2000")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def note(tmp_path: Path) -> CFunction:
    source = tmp_path / "note.c"
    source.write_text(INSTRUMENT)
    return CFunction(source, "note")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "_MANY", 1)


@pytest.mark.parametrize("name", seldom(["threads", *SINGLE], 3))
def test_calls_are_the_same_planned_one_by_one_for_the_cache_and_from_it(
    name: str, note: CFunction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The three ways are: planned one by one, planned for the cache, and read from the cache."""
    program, had = build(name), list[set[str]]()

    def insert(session: Session, process: Process) -> None:
        probes = session.insert("*:entry", note)
        had.append({probe.row.point for probe in probes if probe.tactic is not None})

    found: list[Calls] = []
    for many in (1 << 30, 1, 1):
        monkeypatch.setattr(plan_cache, "_MANY", many)
        threads, seen = timed(program, insert)
        assert seen == plain([program, ROUNDS]).visible
        found.append(threads if name != "threads" else [sorted(call for thread in threads for call in thread)])
    for each, points in zip(found, had, strict=True):
        assert {point for thread in each for point, _ in thread} <= points
    always = set.intersection(*had)
    first, *others = [[[call for call in thread if call[0] in always] for thread in each] for each in found]
    assert others == [first, first]
    assert len(always) > 5
    assert len(set.union(*had) - always) <= HARD.get(name, 0)


def counted(clause: str, rounds: int = 3) -> dict[str, int]:
    """The counts by function, in the program of two thousand functions."""
    text = f"pid$target:a.out:f[0-9]*:entry {clause}"
    consumer = prepare(Asked((("n", text),), command=(str(MANY), str(rounds))))
    try:
        consumer.compile()
        assert list(consumer.start()) == []
        assert not [happening for happening in consumer.happenings(lambda: False) if not isinstance(happening, Firing)]
        assert consumer.restored is not False
        found = consumer.tracing.aggregations.snapshot().items()
        return {key.partition(bytes(1))[0].decode(): cells[0] for (_, key), cells in found}
    finally:
        let_go(consumer)


def test_plans_from_the_cache_are_not_planned_or_analysed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """No function is analysed again either: not for other clauses, other numbers of rounds, or fewer functions."""
    expected = {f"f{n}": 3 for n in range(2000)}
    assert counted("{ @[probefunc] = count(); }") == expected

    def forbidden(*_: object) -> None:
        raise AssertionError("a function was planned, or looked into")

    with monkeypatch.context() as patched:
        patched.setattr(staging, "plan", forbidden)
        patched.setattr(plan_cache, "build_template", forbidden)
        patched.setattr(Analysis, "_analyse", forbidden)
        assert counted("{ @[probefunc] = count(); }") == expected
        assert counted('/probefunc != "f7"/ { @[probefunc] = sum(2); }') == {
            name: 6 for name in expected if name != "f7"
        }


@pytest.mark.stress
def test_arguments_are_the_same_with_plans_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The three ways are: planned one by one, planned for the cache, and read from it. A function's argument is the
    result of the last."""
    found = []
    for many in (1 << 30, plan_cache._MANY, plan_cache._MANY):
        monkeypatch.setattr(plan_cache, "_MANY", many)
        found.append(counted("{ @[probefunc] = sum(arg0); }"))
    assert found[0] == found[1] == found[2]
    assert len(set(found[0].values())) > 1000


def test_more_probes_in_functions_planned_from_the_cache_lose_no_hit(note: CFunction, small: None) -> None:
    """Probes in force from the cache are planned again together with those that come; those that stay miss no hit."""
    with Loop([build("hot8")]) as loop:
        with gilk.attach(loop.pid) as target, target.session(points=1 << 18) as session:
            first = session.insert("*:entry", note)
            for _ in range(5):
                returns = session.insert("hot:blocks", gilk.count)
                other = session.insert("hot_asm:return", "regs")
                session.remove(returns)
                session.remove(other)
            session.remove(first[::2])
            again = session.insert("*:entry", note)
            assert {probe.tactic is not None for probe in (*first, *again)} == {True}
            session.remove(again)
            session.remove(first)
            assert not session.tactics()
        assert session.restored is True
        assert differences(loop.pid) == []
        assert leftovers(loop.pid) == []
