# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects woven into a program do what their model does (docs/aspect/semantics.md): the program's output, reports in
their order, sums of tables, counts of instances.

Files of aspects and calls are made from a seed, which is the name of the test.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gilk.lang.aspect import instances
from gilk.lang.aspect.checked import CheckedFile
from gilk.targets.process import Process, attach
from gilk.toolchain import compilers, runtime
from tests.behaviour.harness import differences, leftovers
from tests.behaviour.woven_cases import HEAD, case
from tests.behaviour.woven_model import Seen, played, woven, written
from tests.behaviour.woven_program import Command, Commanded, build, commanded
from tests.lang.aspect.test_model_laws import MUTANTS
from tests.seldom import seldom

SEEDS = range(30)
MANY = int(os.environ.get("GILK_WOVEN_SEEDS", "600"))


@dataclass(frozen=True)
class Woven:
    """A running program, attached to."""

    program: Commanded
    process: Process

    def agrees(self, place: Path, text: str, commands: tuple[Command, ...]) -> Seen:
        """Assert that the program does what the model says, with the aspects and after they are gone. Returns what
        was seen."""
        file = written(place, text)
        expected = played(file, commands, self.program.pid)
        found = woven(file, commands, self.program, self.process)
        assert found.outputs == expected.outputs, text
        assert found.reports == expected.reports, text
        assert found.sums == expected.sums, text
        assert found.instances == expected.instances, text
        assert self.program.ask("two 7 3") == "4"
        return found


@pytest.fixture(scope="module")
def woven_into(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Woven]:
    with commanded(build(tmp_path_factory.mktemp("woven"))) as program:
        with attach(program.pid) as process:
            yield Woven(program, process)
        assert not differences(program.pid) and not leftovers(program.pid)


@pytest.mark.parametrize("seed", seldom(SEEDS, 3))
def test_woven_programs_agree_with_the_model(woven_into: Woven, tmp_path: Path, seed: int) -> None:
    made = case(seed)
    woven_into.agrees(tmp_path, made.text, made.commands)


@pytest.mark.stress
@pytest.mark.parametrize("first", range(1000, 1000 + MANY, 20))
def test_woven_programs_agree_with_the_model_for_many_seeds(woven_into: Woven, tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 20):
        made = case(seed)
        woven_into.agrees(tmp_path, f"/* seed {seed} */\n{made.text}", made.commands)


#: Mistakes that one thread cannot show, or that need an age equal to a limit to the nanosecond.
UNSEEN = ("every thread continues", "everything is replaced", "one just as old as the limit ends")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[CheckedFile, tuple[Command, ...], Seen]]:
    """The cases, and what the model makes of them."""
    place = tmp_path_factory.mktemp("sound")
    files = [(written(place, one.text), one.commands) for one in map(case, SEEDS)]
    return [(file, commands, played(file, commands, 1)) for file, commands in files]


@pytest.mark.parametrize("what", seldom(sorted(set(MUTANTS) - set(UNSEEN)), 4))
def test_the_cases_detect_a_mistake_in_the_model(
    what: str, sound: list[tuple[CheckedFile, tuple[Command, ...], Seen]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model with that mistake behaves differently in one of the cases."""
    monkeypatch.setattr(*MUTANTS[what])
    assert any(played(file, commands, 1) != seen for file, commands, seen in sound)


def test_the_cases_detect_instance_words_that_are_not_reread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, HEAD + WORDS)
    sound = played(file, WORDS_CALLS, 1)
    monkeypatch.setattr(instances.AdvisedMatch, "fetch", lambda _: None)
    assert played(file, WORDS_CALLS, 1) != sound


def calls(*words: str) -> tuple[Command, ...]:
    """Commands from lines such as ``two 1 2``; the arguments are numbers or other words."""
    split = (word.split() for word in words)
    return tuple(Command(name, tuple(map(_argument, given))) for name, *given in split)


def _argument(text: str) -> Any:
    return float(text) if "." in text else int(text) if text.lstrip("-").isdecimal() else text


#: Instances come and go, so that a later one takes the room of an earlier one.
OLDEST = """
instances 3 seq(call(long one(long a)); call(long two(long k, long b)) && if (b == a) then inplace { return a; };
    call(long three(long a, long b, long c)) then inplace { report("%ld", a); return proceed(a, 1, 1); });
instances 3 seq(call(long one(long v)); call(long two(long k, long b)) && if (v == b || k == 9);
    call(long three(long a, long b, long c)) then inplace { report("%ld", v); return proceed(v, 1, 1); });
"""
OLDEST_CALLS = calls(
    "one 1", "one 2", "one 3", "two 0 1", "three 1 1 1", "one 4", "two 9 9", "three 1 1 1", "one 5", "one 6", "two 9 5",
    "one 7", "two 9 0", "three 0 0 0",
)  # fmt: skip

#: Advice around other advice goes on with the words that the inner calls have left.
WORDS = """
instances 4 var(long n = 1, int m = 2) seq(
    call(long outer(long a, long b)) then inplace { n += 10; long r = proceed(); report("outer %ld %d", n, m); m = 7; return r; };
    call(long one(long c)) then { report("one %ld", n); n += 100; m++; } *;
    call(long two(long c, long d)) && return(r) then after { report("two %ld %d", n, m); n = 5; } *;
    call(long three(long x, long y, long z)) then { report("three %ld %d", n, m); });
"""
WORDS_CALLS = calls("outer 1 2", "one 5", "outer 3 4", "three 1 2 3", "outer 1 1", "one 1", "three 1 1 1")

#: An element in the middle binds a name; `until` may come before it, or after.
UNTIL = """
instances 8 seq(call(long one(long k)) then { report("began"); }; call(long two(long k, long v)) then { report("moved"); };
    call(long three(long k, long b, long c))) until call(long both(struct pair p, long v)) && bind(long w, v);
"""
UNTIL_CALLS = calls(
    "one 1", "both 1,1 9", "one 1", "two 1 5", "both 1,1 4", "both 1,1 5", "one 2", "two 2 6", "three 2 0 0"
)

#: One element matches at the entry and at the return of one function.
MOMENTS = """
instances 8 seq((call(long one(long k)) && if (k == 2) || call(long one(long k)) && return(r) && if (r == 3));
    (call(long two(long k, long b)) && if (b == 1) || call(long two(long k, long b)) && return(r) && if (r > 1)) *;
    call(long three(long k, long b, long c)) then { report("%ld", k); });
(call(long one(long a)) && if (a) || call(long one(long a)) && return(r) && if (r > 3));
"""
MOMENTS_CALLS = calls("one 1", "one 2", "one 3", "two 1 1", "two 2 0", "two 2 1", "three 1 0 0", "three 2 0 0")

#: Types with qualifiers, products in arguments of calls, numbers that are equal with different bytes.
WRITTEN = """
call(long two(const long a, volatile long b)) && bind(const long c, a + b) then inplace {
    report("%ld %ld", a * b, c); long r = proceed(a * c, b); add(sums, a * c, r); return r; };
unique(x) seq(call(double real(double x, const long n)); call(long text(const char *const s, long n)) && bind(char t[3], s)
    then { report("%s %.1f", t, x); }; call(long text(const char *u, long n)) && bind(char t[3], u) then { report("%s", u); });
"""
WRITTEN_CALLS = calls(
    "two 3 4", "real 0.0 1", "real -0.0 2", "text abcd 1", "text b 2", "text abxx 3", "real 1.5 1", "text a 1", "text a 0",
)  # fmt: skip

#: An instance that is too old is not replaced, and needs no room.
LATE = """
unique(k) instances 1 seq(call(long one(long k)) then { report("%ld", k); }; call(long two(long k, long b))) within 1ns;
instances 1 seq(call(long one(long k)) then { report("%ld", k); }; call(long two(long k, long b))) within 1ns;
"""
LATE_CALLS = calls("one 1", "one 1", "one 2", "two 2 2", "one 1")

NAMED = {
    "the oldest first": (OLDEST, OLDEST_CALLS), "words": (WORDS, WORDS_CALLS), "until": (UNTIL, UNTIL_CALLS),
    "both moments": (MOMENTS, MOMENTS_CALLS), "types and texts": (WRITTEN, WRITTEN_CALLS), "late": (LATE, LATE_CALLS),
}  # fmt: skip


@pytest.mark.parametrize("what", seldom(NAMED, 3))
def test_program_and_model_agree_about(what: str, woven_into: Woven, tmp_path: Path) -> None:
    text, commands = NAMED[what]
    assert woven_into.agrees(tmp_path, HEAD + text, commands).reports


def test_a_table_of_instances_that_is_full_loses_and_overwrites_nothing(woven_into: Woven, tmp_path: Path) -> None:
    text = """aspect full: instances 3 seq(call(long one(long a)); call(long two(long b, long c)) then { report("%ld", a); });"""
    found = woven_into.agrees(tmp_path, HEAD + text, calls(*(f"one {n}" for n in range(10)), "two 1 1"))
    assert found.instances["full"]["lost"] == 7
    assert found.reports == [("full", "0"), ("full", "1"), ("full", "2")]


def test_generated_c_is_compiled_by_clang_too(
    woven_into: Woven, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.runtime()  # the other compiler makes it
    monkeypatch.setattr(compilers, "compiler", lambda: ("clang",))
    monkeypatch.setattr(compilers, "_is_gcc", lambda: False)
    woven_into.agrees(tmp_path, HEAD + WRITTEN, WRITTEN_CALLS)
