# SPDX-License-Identifier: LGPL-2.1-or-later
"""Accesses that debug registers show: aspects that say `debugreg` see every one that valgrind's lackey sees, also from
assembler, and programs are as before once the weaver, or its keeper, was killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gilk
from gilk.errors import GilkError, TargetError, UsageError
from gilk.targets import ptrace
from gilk.targets.debug_registers import MOST, DebugRegisters, WatchedPiece
from gilk.targets.status import status_of
from gilk.targets.trapping import ignores
from tests.behaviour.accessed_program import AccessedVariable, build, kept, made, seen_by_valgrind
from tests.behaviour.advised import aspects
from tests.behaviour.advised import build as build_rounds
from tests.behaviour.advised import rounds
from tests.behaviour.harness import differences, leftovers
from tests.behaviour.test_keeper_killed import stands
from tests.behaviour.test_weave_access import declared, weave
from tests.behaviour.waiting import wait_for
from tests.seldom import seldom

#: Every access goes through a pointer that has escaped, many from instructions that gilk cannot weave.
ASSEMBLER = r"""
#include <stdio.h>
#include <string.h>
long x = 3, y; long *p = &x;
static void step(long n)
{
	long a = n, one = 1, *s = p, *d = &y;
	double half = 0.5;
	__asm__ volatile("mov %1, %0" : "=r"(a) : "m"(*p));
	__asm__ volatile("movq %0, %1" :: "r"(a + n), "m"(*p) : "memory");
	__asm__ volatile("incq %0" : "+m"(*p) :: "cc");
	__asm__ volatile("addq (%1), %0" : "+r"(a) : "r"(p) : "cc");
	__asm__ volatile("rep movsq" : "+S"(s), "+D"(d), "+c"(one) :: "memory");
	s = &y, d = p;
	__asm__ volatile("movsq" : "+S"(s), "+D"(d) :: "memory");
	one = 8, d = p;
	__asm__ volatile("rep stosb" : "+D"(d), "+c"(one) : "a"(n) : "memory");
	one = 8, d = (long *)((char *)p + 7);
	__asm__ volatile("std; rep stosb; cld" : "+D"(d), "+c"(one) : "a"(n + 1) : "memory");
	s = p;
	__asm__ volatile("mov (%0), %0" : "+r"(s));
	__asm__ volatile("push %0; pop %0" : "+m"(*p));
	__asm__ volatile("movdqu (%0), %%xmm5" :: "r"(p) : "xmm5");
	__asm__ volatile("movhps %%xmm5, (%0)" :: "r"(p) : "memory");
	__asm__ volatile("xaddq %0, (%1)" : "+r"(a) : "r"(p) : "memory", "cc");
	__asm__ volatile("fldl %1; fstpl (%0)" :: "r"(p), "m"(half) : "memory");
	memcpy(p, &a, sizeof a);
}
int main(void)
{
	long n;
	for (n = 1; n <= 20; n++)
		step(n);
	printf("%p %ld\n", (void *)main, x);
	return 0;
}
"""
X = AccessedVariable("x", "long", False)


def counting(variables: tuple[AccessedVariable, ...]) -> str:
    return "".join(
        f"table {way}_{one.name} key(unsigned long, long) count;\n"
        f"debugreg {kind}({declared(one)} {one.name}) && size(s) && offset(o) then after {{ add({way}_{one.name}, s, o, 1); }};\n"
        for one in variables
        for kind, way in (("readGlobal", "r"), ("writeGlobal", "w"))
    )


def by_way(counts: Counter[tuple[str, int, int]]) -> Counter[str]:
    """How many accesses are reads and how many are writes: debug registers do not tell their sizes."""
    found: Counter[str] = Counter()
    for (way, _, _), count in counts.items():
        found[way] += count
    return found


def differing(path: Path, variables: tuple[AccessedVariable, ...], place: Path) -> list[str]:
    expected = seen_by_valgrind(path, place, variables)
    _, found = weave(path, counting(variables), place)
    return [
        f"{name}: lackey {by_way(expected[name])}, woven {by_way(found.get(name, Counter()))}"
        for name in expected
        if by_way(expected[name]) != by_way(found.get(name, Counter()))
    ]


def test_advice_sees_what_lackey_sees_also_by_assembler(tmp_path: Path) -> None:
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(ASSEMBLER)
    subprocess.run(["gcc", "-O1", "-mno-red-zone", "-o", program, source], check=True)
    with pytest.raises(UsageError, match=r"\bx gets out of sight"):
        weave(program, counting((X,)).replace("debugreg ", ""), tmp_path)
    assert differing(program, (X,), tmp_path) == []


@pytest.mark.parametrize("seed", seldom(range(6), 1))
def test_advice_sees_the_accesses_that_lackey_sees(seed: int, tmp_path: Path) -> None:
    program = made(seed)
    path = build(tmp_path, program, ("gcc", "clang")[seed % 2], f"-O{seed % 4}")
    assert differing(path, tuple(one for one in kept(path, program.variables) if one.is_whole)[:MOST], tmp_path) == []


#: The first round begins two threads that store and load all the time, and the next one ends them.
BUSY = """
#include <pthread.h>
long shared = 5;
static long *volatile where = &shared;
static int stop;
static void *work(void *unused)
{
	long wrong = 0;

	(void)unused;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		*(volatile long *)where = 5;
		wrong += *(volatile long *)where != 5;
	}
	return (void *)wrong;
}
static void one_round(void)
{
	static pthread_t ids[2];
	static int on;
	void *one, *other;

	if (on ^= 1) {
		stop = 0;
		pthread_create(ids, 0, work, 0);
		pthread_create(ids + 1, 0, work, 0);
		puts("begun");
		return;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(ids[0], &one);
	pthread_join(ids[1], &other);
	printf("%ld\\n", (long)one + (long)other);
}
"""
STORES = "debugreg writeGlobal(long shared) && value(v) && if (v == 5) then after { };"


def ignores_traps(pid: int) -> bool:
    return ignores(status_of(pid))


def weave_until_killed(pid: int, file: Path) -> int:
    """Fork a weaver, and return its pid once it has woven and seen many accesses."""
    inside, outside = os.pipe()
    child = os.fork()
    if not child:
        try:
            with gilk.attach(pid) as target, gilk.weave(file, target) as woven:
                wait_for(lambda: woven.counts()[0].matches[0] > 100)
                os.write(outside, b"x")
                signal.pause()
        finally:
            os._exit(1)
    os.close(outside)
    assert os.read(inside, 1) == b"x"
    os.close(inside)
    return child


def test_a_killed_weaver_leaves_nothing(tmp_path: Path) -> None:
    with rounds(build_rounds(tmp_path, BUSY)) as program:
        assert program.ask() == "begun"
        weaver = weave_until_killed(program.pid, aspects(tmp_path, STORES))
        assert ignores_traps(program.pid)
        os.kill(weaver, signal.SIGKILL)
        os.waitpid(weaver, 0)
        assert wait_for(lambda: not stands(program.pid) and not leftovers(program.pid))
        assert not ignores_traps(program.pid) and not differences(program.pid)
        assert program.ask() == "0"


def keepers_death(pid: int, file: Path) -> None:
    """Kill the keeper while threads get signals all the time, then restore the program."""
    with pytest.raises(TargetError, match="has gone"), gilk.attach(pid) as target, gilk.weave(file, target) as woven:
        assert wait_for(lambda: woven.counts()[0].matches[0] > 100)
        os.kill(ptrace.tracer_of(pid), signal.SIGKILL)
        assert wait_for(lambda: not stands(pid))
        assert ignores_traps(pid)
    gilk.restore(pid)
    assert not stands(pid) and not ignores_traps(pid) and not differences(pid)


def test_a_killed_keeper_leaves_a_program_that_goes_on(tmp_path: Path) -> None:
    with rounds(build_rounds(tmp_path, BUSY)) as program:
        assert program.ask() == "begun"
        keepers_death(program.pid, aspects(tmp_path, STORES))
        assert program.ask() == "0"
