# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice that is left otherwise than by its end: by longjmp out of it, by a handler that jumps, by the end of the
thread; and advice that forks. The program's own results say whether later calls still have their advice, and the kernel
how children have ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import gilk
from gilk.render.woven import summary_text
from tests.behaviour.advised import Rounds, aspects, build, rounds
from tests.behaviour.harness import differences, leftovers
from tests.seldom import seldom

PROGRAM = r"""
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
sigjmp_buf back;
NOINLINE long plain(long a) { __asm__ volatile(""); return 3 * a; }
NOINLINE void leave(void) { __asm__ volatile(""); }
NOINLINE void above(void) { leave(); __asm__ volatile(""); }
NOINLINE void slow(void) { __asm__ volatile(""); }
NOINLINE void over(void) { volatile long room[8]; room[0] = 1; slow(); room[1] = 1; }
NOINLINE long under(long n)
{
	volatile char room[600];

	memset((char *)room, (int)n, sizeof room);
	return plain(n) + room[1] - n;
}
NOINLINE void *ends(void *p) { __asm__ volatile(""); return p; }
NOINLINE long twin(long n) { __asm__ volatile(""); return n; }
static void handler(int number) { siglongjmp(back, number); }

static long jumped(void)
{
	int left = sigsetjmp(back, 1);

	if (!left) above();
	return left;
}

static long interrupted(void)
{
	int left;

	signal(SIGUSR1, handler);
	left = sigsetjmp(back, 1);
	if (!left) over();
	return left;
}

/* The child answers by its status what its own calls give: 6 and 4 without advice. */
static long forked(void)
{
	pid_t self = getpid();
	long given = twin(4);
	int status, sum = 0;

	if (getpid() != self) _exit(plain(2) == 6 ? 1 : plain(2) == 1006 && given == 4 ? 2 : 3);
	while (waitpid(-1, &status, 0) > 0) sum += WIFEXITED(status) ? WEXITSTATUS(status) : 100;
	return given * 100 + sum;
}

static void one_round(void)
{
	pthread_t thread;
	void *result;
	long same = jumped(), after = plain(1), deeper = under(1), other = interrupted(), again = under(1);

	pthread_create(&thread, 0, ends, (void *)5);
	pthread_join(thread, &result);
	printf("%ld %ld %ld, %ld %ld, %ld, %ld\n", same, after, deeper, other, again, (long)result, forked());
}
"""
PLAIN = "0 3 3, 0 3, 5, 400"
HEAD = """%{ #include <setjmp.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
extern sigjmp_buf back; %}
call(long plain(long a)) then inplace { return proceed() + 1000; };
"""
CASES = {
    "a jump": ("call(void leave(void)) then inplace { siglongjmp(back, 7); };", "7 1003 1003, 0 1003, 5, 400"),
    "a jump before the call": ("call(void leave(void)) then { siglongjmp(back, 8); };", "8 1003 1003, 0 1003, 5, 400"),
    "a jump after the call": ("call(void leave(void)) then after { siglongjmp(back, 9); };", "9 1003 1003, 0 1003, 5, 400"),
    "a handler": ("call(void slow(void)) then { raise(SIGUSR1); };", "0 1003 1003, 10 1003, 5, 400"),
    "the end of a thread": (
        "call(void *ends(void *p)) then inplace { pthread_exit((void *)6L); };", "0 1003 1003, 0 1003, 6, 400"
    ),
    # The child is in plain() without the advice around it, and has none behind proceed(); its own calls have some.
    "a fork": ("call(long twin(long n)) then inplace { fork(); return proceed() + 1; };", "0 1003 1003, 0 1003, 5, 502"),
    "a fork before the call": ("call(long twin(long n)) then { fork(); };", "0 1003 1003, 0 1003, 5, 402"),
    "a fork and no call": (
        "call(long twin(long n)) then inplace { fork(); return 4; };", "0 1003 1003, 0 1003, 5, 402"
    ),
    "a fork after the call": (
        "call(long twin(long n)) && return(r) then after { fork(); };", "0 1003 1003, 0 1003, 5, 402"
    ),
    "a fork and a call with other arguments": (
        "call(long twin(long n)) then inplace { fork(); return proceed(n) + 2; };", "0 1003 1003, 0 1003, 5, 602"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("left"), PROGRAM)


@pytest.fixture
def running(program: Path) -> Iterator[Rounds]:
    with rounds(program) as one:
        yield one


@pytest.mark.parametrize("name", seldom(CASES, 3))
def test_calls_after_an_abandoned_call_have_their_advice(running: Rounds, tmp_path: Path, name: str) -> None:
    text, expected = CASES[name]
    assert running.ask() == PLAIN
    with gilk.attach(running.pid) as target, gilk.weave(aspects(tmp_path, HEAD + text), target) as weaving:
        for _ in range(5):
            assert running.ask() == expected
        (*_, last) = weaving.counts()
        assert last.begun == 5
    (summary,) = weaving.summaries()
    assert (summary.inside, summary.missed, summary.restored) == (0, 0, True)
    assert running.ask() == PLAIN
    assert (differences(running.pid), leftovers(running.pid)) == ([], [])


ACCESSES = """
#include <sys/wait.h>
#include <unistd.h>
int counter;
NOINLINE void count(void) { counter++; __asm__ volatile("" ::: "memory"); }
NOINLINE long plain(long a) { __asm__ volatile(""); return 3 * a; }
static void one_round(void)
{
	pid_t self = getpid();
	int status, sum = 0;

	count();
	if (getpid() != self) _exit(plain(2) == 1006 ? 2 : 3);
	while (waitpid(-1, &status, 0) > 0) sum += WIFEXITED(status) ? WEXITSTATUS(status) : 100;
	printf("%d %ld %d\\n", counter, plain(1), sum);
}
"""


def test_advice_on_an_access_may_fork(tmp_path: Path) -> None:
    text = HEAD.replace("extern sigjmp_buf back;", "") + "writeGlobal(int counter) then { fork(); };"
    with rounds(build(tmp_path, ACCESSES)) as one:
        assert one.ask() == "1 3 0"
        with gilk.attach(one.pid) as target, gilk.weave(aspects(tmp_path, text), target) as weaving:
            assert [one.ask() for _ in range(3)] == ["2 1003 2", "3 1003 2", "4 1003 2"]
        (summary,) = weaving.summaries()
        assert (summary.inside, summary.restored) == (0, True)
        assert one.ask() == "5 3 0"
        assert (differences(one.pid), leftovers(one.pid)) == ([], [])


DEEP = """
#include <stdlib.h>
NOINLINE long deep(long n) { long r = n > 0 ? 1 + deep(n - 1) : 0; __asm__ volatile(""); return r; }
static void one_round(void) { printf("%ld %ld\\n", deep(20), deep(20000)); }
"""


def test_calls_nested_too_deep_for_advice_are_counted(tmp_path: Path) -> None:
    """The program counts its calls by their results: each has advice, or is counted as one without."""
    text = "call(long deep(long n)) then inplace { return proceed() + 1000000; };"
    with rounds(build(tmp_path, DEEP)) as one, gilk.attach(one.pid) as target:
        with gilk.weave(aspects(tmp_path, text), target) as weaving:
            shallow, deep = (int(n) for n in one.ask().split())
            (counts,) = weaving.counts()
        assert shallow == 20 + 21 * 1000000
        advised, depth = divmod(deep, 1000000)
        assert depth == 20000 and 1000 < advised < 20001
        (summary,) = weaving.summaries()
        assert counts.begun == 21 + advised
        assert summary.skipped == 20001 - advised
        assert f"{summary.skipped} calls so deep" in summary_text([summary], (), ())
        assert one.ask() == "20 20000"
