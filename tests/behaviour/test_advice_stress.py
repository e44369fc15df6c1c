# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice that comes and goes in a program of eight busy threads, whose results show every call that went wrong."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gilk.errors import TargetError
from gilk.session.advising import advice
from tests.behaviour.advised import TAILS, build, jumps, rounds, session
from tests.behaviour.harness import differences, leftovers
from tests.seldom import seldom

#: The program checks each call: advice adds a million to a result, or nothing. All threads receive signals.
BUSY = """
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>
#define MILLION 1000000
static volatile int stop;
static long wrong, calls, advised;
NOINLINE long leaf(long a, long b, jmp_buf *back) { __asm__ volatile(""); if (a % 7 == 3) longjmp(*back, (int)a + 1);
	return a * 3 + b; }
NOINLINE long tree(long n, jmp_buf *back) { long r; __asm__ volatile(""); if (n <= 0) return 1;
	r = tree(n - 1, back) + tree(n - 2, back); __asm__ volatile(""); return r; }
NOINLINE double stacked(int a, double b, long c, long d, long e, long f, long g, long h, float i, long j)
{ __asm__ volatile(""); return a + b * c + d + e + f + g + h + i + j; }
static void check(long got, long expected) { calls++; advised += got != expected;
	if (got % MILLION != expected || got < 0 || got / MILLION > 100) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED); }
static void handler(int n) { jmp_buf back; long r = n; if (!setjmp(back)) r = leaf(14, 1, &back); check(r, 43); }
static void *thread(void *p)
{
	char *other = malloc(1 << 16);
	stack_t alt = {other, 0, 1 << 16};
	if ((long)p % 2) sigaltstack(&alt, 0);
	for (long n = 0; !stop; n++) {
		jmp_buf back;
		long a = n % 100;
		int left = setjmp(back);
		if (left) check(left, a + 1);
		else check(leaf(a, 5, &back), a * 3 + 5);
		check(tree(6, &back), 21);
		double x = stacked(1, 2.5, 4, 5, 6, 7, 8, 9, 10.5f, 11);
		check((long)x, 67);
		if (n % 64 == 0) usleep(1000); /* others want to get on, too */
	}
	sigaltstack(&(stack_t){0, SS_DISABLE, 0}, 0);
	free(other);
	return 0;
}
static void one_round(void)
{
	static pthread_t id[8];
	static int begun;
	if (!begun) {
		struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART};
		struct itimerval often = {{0, 5000}, {0, 5000}};
		sigaction(SIGALRM, &action, 0);
		setitimer(ITIMER_REAL, &often, 0);
		for (long n = 0; n < 8; n++) pthread_create(&id[n], 0, thread, (void *)n);
		begun = 1;
	}
	printf("%ld %d %d\\n", wrong, calls > 0, advised > 0);
}
"""

LEAF = "long f(long a, long b, void *back) { return proceed() + 1000000; }"
TREE = "long f(long r, long n, void *back) { return n == 6 ? r + 1000000 : r; }"
STACKED = """double f(int a, double b, long c, long d, long e, long f, long g, long h, float i, long j)
{ if (a != 1 || b != 2.5 || j != 11 || i != 10.5f) return -1; double r = proceed(a, b, c, d, e, f, g, h, i, j);
  return r == proceed() ? r + 2000000 : -1; }"""
WOVEN = (
    ("leaf", LEAF, "long leaf(long a, long b, void *back)", "inplace"),
    ("tree", TREE, "long tree(long n, void *back)", "after"),
    ("stacked", STACKED, "double stacked(int a, double b, long c, long d, long e, long f, long g, long h, float i, long j)",
     "inplace"),
)  # fmt: skip


#: Functions of BUSY, some of which end in jumps to others; those others have advice and are called as well.
JUMPING = (
    BUSY.replace("NOINLINE long leaf(", "NOINLINE long inner(", 1)
    .replace("NOINLINE long tree(", """NOINLINE long leaf(long a, long b, jmp_buf *back) { __asm__ volatile(""); return inner(a, b, back); }
NOINLINE long tree(""", 1)
    .replace("check(tree(6, &back), 21);", "check(tree(6, &back), 21); if (!setjmp(back)) check(inner(14, 5, &back), 47);", 1)
)  # fmt: skip
JUMPS = (
    WOVEN[0],
    ("inner", "long f(long r, long a, long b, void *back) { return r + 2000000; }",
     "long inner(long a, long b, void *back)", "after"),
    *WOVEN[1:],
)  # fmt: skip
Pieces = tuple[tuple[str, str, str, str], ...]


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("busy"), BUSY)


@pytest.fixture(scope="module")
def jumping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = build(tmp_path_factory.mktemp("jumping"), JUMPING, *TAILS)
    assert jumps(program, "leaf", "inner")
    return program


@pytest.mark.parametrize("times", seldom([20, 100], 1))
@pytest.mark.parametrize("name", ["busy", "jumping"])
def test_advice_comes_and_goes_many_times(request: pytest.FixtureRequest, name: str, times: int) -> None:
    pieces: Pieces = WOVEN if name == "busy" else JUMPS
    with rounds(request.getfixturevalue(name)) as program:
        assert program.ask().startswith("0 ")
        with session(program.pid) as one:
            for n in range(times):
                function, text, signature, when = pieces[n % len(pieces)]
                probes = one.advise(f"{function}:entry", advice(text, "f", signature, when))
                assert program.ask().startswith("0 "), n
                one.remove(probes)
                assert not [each for each in differences(program.pid) if "/program" in each], n
            assert program.ask() == "0 1 1"
        assert one.restored
        assert program.ask().startswith("0 ")
        assert not differences(program.pid) and not leftovers(program.pid)


@pytest.mark.parametrize("name", seldom(["jumping", "busy"], 1))
def test_all_advice_at_once_beside_probes_at_the_same_points(request: pytest.FixtureRequest, name: str) -> None:
    pieces: Pieces = WOVEN if name == "busy" else JUMPS
    with rounds(request.getfixturevalue(name)) as program:
        program.ask()
        with session(program.pid) as one:
            for n in range(10):
                for function, text, signature, when in pieces:
                    one.advise(f"{function}:entry", advice(text, "f", signature, when))
                counted = one.insert("tree:entry", "count") + one.insert("leaf:blocks", "count")
                assert program.ask().startswith("0 "), n
                one.remove(one.probes)
                assert counted
        assert one.restored
        assert program.ask() == "0 1 1"
        assert not differences(program.pid) and not leftovers(program.pid)


def test_the_program_goes_on_with_its_advice_when_the_keeper_is_killed(busy: Path) -> None:
    """The program goes on, and keeps the advice."""
    with rounds(busy) as program:
        program.ask()
        with pytest.raises(TargetError), session(program.pid) as one:
            for function, text, signature, when in WOVEN:
                one.advise(f"{function}:entry", advice(text, "f", signature, when))
            os.kill(one.process.keeper.pid, signal.SIGKILL)
            for _ in range(20):
                assert program.ask().startswith("0 ")
            one.remove(one.probes)
        assert program.ask() == "0 1 1"
