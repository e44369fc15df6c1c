# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects that come and go again and again in eight busy threads that proceed, throw, leave by longjmp, take signals
on their own stacks and on others, and fork. The program checks each result itself."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from gilk.api.aspects import read_aspects
from gilk.engines.aspect.weaving import Weaving
from gilk.session import advising
from gilk.targets.process import attach
from tests.behaviour.advised import aspects, build, rounds
from tests.behaviour.harness import differences, leftovers, wait_for
from tests.seldom import seldom

#: Advice adds a million once, several times, or not at all.
HOT = r"""
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#define MILLION 1000000
struct odd { long a; };
static volatile long wrong, calls, advised, forked;
extern "C" {
NOINLINE long leaf(long a, long b, jmp_buf *back) { __asm__ volatile(""); if (a % 7 == 3) longjmp(*back, (int)a + 1);
	if (a % 5 == 1) throw odd{a};
	return a * 3 + b; }
NOINLINE long tree(long n, jmp_buf *back) { long r; __asm__ volatile(""); if (n <= 0) return 1;
	r = tree(n - 1, back) + tree(n - 2, back); __asm__ volatile(""); return r; }
NOINLINE double stacked(int a, double b, long c, long d, long e, long f, long g, long h, float i, long j)
{ __asm__ volatile(""); return a + b * c + d + e + f + g + h + i + j; }
}
static void check(long got, long expected)
{
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	if (got != expected) __atomic_fetch_add(&advised, 1, __ATOMIC_RELAXED);
	if (got % MILLION != expected || got < 0 || got / MILLION > 100) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
}
static void left_how(long a)
{
	jmp_buf back;
	int left = setjmp(back);

	if (left) { check(left, a + 1); return; }
	try { long r = leaf(a, 5, &back); check(r, a * 3 + 5); if (a % 7 == 3 || a % 5 == 1) wrong = wrong + 1; }
	catch (const odd &one) { check(one.a, a); if (a % 5 != 1) wrong = wrong + 1; }
}
static void handler(int) { left_how(14); left_how(3); left_how(6); }
static void once(long n)
{
	left_how(n % 100);
	check(tree(6, 0), 21);
	check((long)stacked(1, 2.5, 4, 5, 6, 7, 8, 9, 10.5f, 11), 67);
}
static void child(void)
{
	int status = 1;
	pid_t pid = fork();

	if (!pid) {
		wrong = 0;
		for (long n = 0; n < 20; n++) once(n);
		_exit(wrong != 0);
	}
	if (pid < 0) return;
	while (waitpid(pid, &status, 0) != pid) ;
	if (status) wrong = wrong + 1;
	forked = forked + 1;
}
static void *thread(void *p)
{
	char *other = (char *)malloc(1 << 16);
	stack_t alt = {};

	alt.ss_sp = other;
	alt.ss_size = 1 << 16;
	if ((long)p % 2) sigaltstack(&alt, 0);
	for (long n = 0;; n++) {
		once(n);
		if ((long)p == 0 && n % 400 == 0) child();
		if (n % 64 == 0) usleep(1000); /* others want to get on, too */
	}
	return 0;
}
static void one_round(void)
{
	static pthread_t id[8];
	static int begun;

	if (!begun) {
		struct sigaction action = {};
		struct itimerval often = {{0, 5000}, {0, 5000}};

		action.sa_handler = handler;
		action.sa_flags = SA_ONSTACK | SA_RESTART;
		sigaction(SIGALRM, &action, 0);
		setitimer(ITIMER_REAL, &often, 0);
		for (long n = 0; n < 8; n++) pthread_create(&id[n], 0, thread, (void *)n);
		begun = 1;
	}
	printf("%ld %ld %ld %ld\n", wrong, calls, advised, forked);
}
"""
ASPECTS = """
%{ #include <setjmp.h> %}
call(long leaf(long a, long b, jmp_buf *back)) then inplace { return proceed() + 1000000; };
perthread var(long n = 0) seq(call(long tree(long m, jmp_buf *back)) then { n++; };
    call(long leaf(long a, long b, jmp_buf *back)) then { n++; } *;
    call(double stacked(int a, double b, long c, long d, long e, long f, long g, long h, float i, long j)) && return(r)
        then after { n += r == 67; });
call(double stacked(int a, double b, long c, long d, long e, long f, long g, long h, float i, long j)) then inplace {
    double r = proceed(a, b, c, d, e, f, g, h, i, j);
    return r == proceed() ? r + 2000000 : -1; };
instances 100 unique(m) seq(call(long tree(long m, jmp_buf *back)) && return(r);
    call(long leaf(long m, long b, jmp_buf *back))) until call(long leaf(long a, long b, jmp_buf *back)) && if (a == 0);
verify controlflowstar(call(long tree(long m, jmp_buf *back)), call(long leaf(long a, long b, jmp_buf *back)));
verify controlflowstar(call(long leaf(long a, long b, jmp_buf *back)), call(long tree(long m, jmp_buf *back)));
"""


def come_and_go(place: Path, times: int) -> None:
    file = read_aspects(aspects(place, ASPECTS))
    with rounds(build(place, HOT, "-O2", "-g", "-pthread", "-fno-optimize-sibling-calls", compiler="g++")) as program:

        def said() -> list[int]:
            return list(map(int, program.ask().split()))

        assert wait_for(lambda: said()[3] > 0)
        with attach(program.pid) as process:
            for n in range(times):
                with Weaving(file, {program.pid: ()}, [process]) as weaving:
                    weaving.weave()
                    if n % 5 == 0:  # otherwise the aspect goes as soon as it has come
                        before = said()
                        assert wait_for(lambda before=before: said()[2] > before[2] and said()[3] > before[3])
                        assert wait_for(lambda weaving=weaving: all(one.begun for one in weaving.counts()[:4]))
                assert said()[0] == 0, n
                for one in weaving.counts():
                    assert one.begun == one.open + one.ended + one.until + one.late + one.replaced + one.gone, n
                    assert (one.missed, one.disagreed) == (0, 0), n
                (summary,) = weaving.summaries()
                assert (summary.restored, summary.missed) == (True, 0), n
                assert not [each for each in differences(program.pid) if "/program" in each], n
            before = said()
            assert wait_for(lambda: said()[1] > before[1] + 1000)
            assert said()[0] == 0
        assert not differences(program.pid) and not leftovers(program.pid)


@pytest.fixture(autouse=True)
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advising, "kept_advice", functools.cache(advising.kept_advice))


@pytest.mark.parametrize("times", seldom([1, 3], 1))
def test_aspects_come_and_go_some_times(tmp_path: Path, times: int) -> None:
    come_and_go(tmp_path, times)


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_aspects_come_and_go_a_thousand_times(tmp_path: Path) -> None:
    come_and_go(tmp_path, 1000)
