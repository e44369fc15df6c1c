# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects from Python: members of groups by their names, aspects on and off, tables, and processes that are let go. The
programs' own answers say what is woven."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import gilk
from gilk.errors import TargetError, UsageError
from gilk.targets.process import attach
from tests.behaviour.advised import Rounds, aspects, build, rounds
from tests.behaviour.harness import differences, leftovers

PROGRAM = """
NOINLINE long one(long k) { __asm__ volatile(""); return k; }
NOINLINE long two(long k) { __asm__ volatile(""); return 2 * k; }
static void one_round(void) { printf("%ld %ld\\n", one(5), two(5)); }
"""
ASPECTS = """
group A;
group B;
table seen key(char [8], long) sum;
table calls key(int) count;
aspect first: A: call(long one(long k)) then inplace { add(seen, "one", k, 3); add(calls, 1, 1); return 100; };
B: call(long two(long k)) then inplace { add(calls, 2, 1); return 200; };
"""
PLAIN, FIRST, SECOND, BOTH = "5 10", "100 10", "5 200", "100 200"


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Rounds, Rounds]]:
    path = build(tmp_path, PROGRAM)
    with ExitStack() as stack:
        yield stack.enter_context(rounds(path)), stack.enter_context(rounds(path))


def is_free(pid: int) -> None:
    """Nobody holds it any more, and it is as it was."""
    assert (differences(pid), leftovers(pid)) == ([], [])
    with attach(pid):
        pass


def test_members_are_given_by_their_groups(two: tuple[Rounds, Rounds], tmp_path: Path) -> None:
    file = gilk.aspect(aspects(tmp_path, ASPECTS))
    a, b = two
    with gilk.weave(file, A=[a.pid], B=[a.pid, b.pid]) as woven:
        assert (a.ask(), b.ask()) == (BOTH, SECOND)
        woven.off("first")
        assert (a.ask(), b.ask()) == (SECOND, SECOND)
        woven.off()
        assert (a.ask(), b.ask()) == (PLAIN, PLAIN)
        woven.on("#2")
        assert (a.ask(), b.ask()) == (SECOND, SECOND)
        woven.on()
        assert (a.ask(), b.ask()) == (BOTH, SECOND)
        assert woven.table("calls") == {1: 2, 2: 8}
        assert woven.table("seen") == {("one", 5): 6}
        for name, slug in ((woven.table, "no-such-table"), (woven.off, "no-such-aspect")):
            with pytest.raises(UsageError) as error:
                name("nothing")
            assert error.value.slug == slug
    assert (a.ask(), b.ask()) == (PLAIN, PLAIN)
    for one in two:
        is_free(one.pid)


def test_processes_are_added_and_everything_removed(two: tuple[Rounds, Rounds], tmp_path: Path) -> None:
    a, b = two
    path = aspects(tmp_path, ASPECTS)
    with gilk.attach(a.pid) as target:
        woven = gilk.weave(path, A=target)
        assert (a.ask(), b.ask()) == (FIRST, PLAIN)
        woven.add("A", b.pid)
        assert (a.ask(), b.ask()) == (FIRST, FIRST)
        woven.add("B", target)
        assert (a.ask(), b.ask()) == (BOTH, FIRST)
        woven.add("B", a.pid)
        woven.add("B", b.pid)
        assert (a.ask(), b.ask()) == (BOTH, BOTH)
        with pytest.raises(UsageError) as error:
            woven.add("C", b.pid)
        assert error.value.slug == "bad-group"
        with pytest.raises(TargetError):
            woven.add("A", 1 << 22)  # beyond all processes
        assert (a.ask(), b.ask()) == (BOTH, BOTH)
        woven.remove()
        assert (a.ask(), b.ask()) == (PLAIN, PLAIN)
        is_free(b.pid)  # its number was given; the target is the caller's
        woven.remove()
        assert woven.table("calls")[1] >= 6
    is_free(a.pid)


def test_a_dry_run_weaves_nothing(two: tuple[Rounds, Rounds], tmp_path: Path) -> None:
    a, b = two
    with gilk.weave(aspects(tmp_path, ASPECTS), A=[a.pid, b.pid], dry_run=True) as woven:
        assert [(one.pid, one.function, one.refused) for one in woven.shadows] == [
            (a.pid, "one", ""),
            (b.pid, "one", ""),
        ]
        assert (a.ask(), b.ask()) == (PLAIN, PLAIN)
        assert not leftovers(a.pid)
    for one in two:
        is_free(one.pid)


def test_an_unknown_group_is_refused(two: tuple[Rounds, Rounds], tmp_path: Path) -> None:
    a, _ = two
    with pytest.raises(UsageError) as error:
        gilk.weave(aspects(tmp_path, ASPECTS), C=[a.pid])
    assert error.value.slug == "bad-group"
    is_free(a.pid)
    with pytest.raises(UsageError) as error:
        gilk.weave(aspects(tmp_path, ASPECTS.replace("two", "three")), A=[a.pid], B=[a.pid])
    assert error.value.slug == "no-such-function"
    is_free(a.pid)
