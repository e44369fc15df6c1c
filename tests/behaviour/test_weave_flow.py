# SPDX-License-Identifier: LGPL-2.1-or-later
"""Conditions on control flow and on callers match as often as the compiler's own instrumentation of functions says.

The program is compiled with -finstrument-functions. Its hooks keep the functions under way, and count themselves how
often each pattern holds when ``last`` is entered. The program recurses at random, and leaves functions by longjmp.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import gilk
from tests.behaviour.advised import build, rounds
from tests.behaviour.harness import differences, leftovers

FLOW = """
#include <setjmp.h>
#include <stdlib.h>
#define QUIET __attribute__((no_instrument_function))
NOINLINE long first(long n); NOINLINE long second(long n); NOINLINE long last(long n); NOINLINE long between(long n);
static void *under_way[4096];
static int depth;
static long star, strict, three, called, entered;
static jmp_buf back;
static unsigned long seed = 1;
QUIET static unsigned chance(unsigned n) { seed = seed * 6364136223846793005UL + 1442695040888963407UL; return (seed >> 33) % n; }
QUIET static int has(int from, void *function) { for (; from >= 0; from--) if (under_way[from] == function) return from; return -1; }
QUIET void __cyg_profile_func_enter(void *function, void *site)
{
	(void)site;
	if (function == (void *)last) {
		int inner = has(depth - 1, (void *)second);
		entered++;
		star += inner >= 0 && has(inner - 1, (void *)first) >= 0;
		strict += depth > 0 && under_way[depth - 1] == (void *)second;
		three += depth > 1 && under_way[depth - 1] == (void *)second && under_way[depth - 2] == (void *)first;
		called += depth > 0 && (under_way[depth - 1] == (void *)between || under_way[depth - 1] == (void *)first);
	}
	under_way[depth++] = function;
}
QUIET void __cyg_profile_func_exit(void *function, void *site) { (void)function, (void)site; depth--; }
__attribute__((always_inline, no_instrument_function)) static inline long further(long n)
{
	if (n <= 0 || depth > 40) return 1;
	if (!chance(60)) longjmp(back, 1);
	switch (chance(5)) {
	case 0: return first(n - 1);
	case 1: return second(n - 1);
	case 2: return last(n - 1);
	case 3: return between(n - 1);
	}
	return n;
}
NOINLINE long first(long n) { long r = further(n) + further(n - 1); __asm__ volatile(""); return r; }
NOINLINE long second(long n) { long r = further(n) + further(n - 1); __asm__ volatile(""); return r + 1; }
NOINLINE long between(long n) { long r = further(n); __asm__ volatile(""); return r + 2; }
NOINLINE long last(long n) { long r = further(n - 2); __asm__ volatile(""); return r + 3; }
QUIET static void one_round(void)
{
	volatile int n;

	star = strict = three = called = entered = 0;
	for (n = 0; n < 200; n++) {
		depth = 0;
		if (!setjmp(back)) { first(7); second(6); }
	}
	printf("%ld %ld %ld %ld %ld\\n", star, strict, three, called, entered);
}
"""
ASPECTS = """
aspect star: controlflowstar(call(long first(long a)), call(long second(long b)), call(long last(long c)));
aspect strict: controlflow(call(long second(long b)), call(long last(long c)));
aspect three: controlflow(call(long first(long a)), call(long second(long b)), call(long last(long c)));
aspect called: call(long last(long c)) && from(between, program:first);
aspect entered: call(long last(long c));
"""


@pytest.mark.parametrize("optimised", ["-O0", "-O2"])
def test_control_flow_matches_as_often_as_the_compilers_hooks_say(tmp_path: Path, optimised: str) -> None:
    options = (optimised, "-finstrument-functions", "-fno-optimize-sibling-calls", "-fno-inline", "-fno-ipa-cp")
    path = tmp_path / "flow.aspect"
    path.write_text(ASPECTS)
    seen = [0] * 5
    with rounds(build(tmp_path, FLOW, *options)) as program:
        program.ask()
        with gilk.attach(program.pid) as target, gilk.weave(path, target) as weaving:
            for _ in range(3):
                seen = [a + int(b) for a, b in zip(seen, program.ask().split(), strict=True)]
            matched = [one.matches[0] for one in weaving.counts()]
        assert matched == seen
        assert min(seen) > 10, "all of them happen"
        assert (differences(program.pid), leftovers(program.pid)) == ([], [])


ARGUMENTS = """
NOINLINE long leaf(long a) { __asm__ volatile(""); return a + 1; }
NOINLINE long inner(long a) { long r = leaf(a * 10); __asm__ volatile(""); return r; }
NOINLINE long outer(double x, long a) { volatile long kept = a; long r = inner(kept); __asm__ volatile(""); return r + leaf((long)x); }
static void one_round(void) { printf("%ld\\n", outer(2.5, 4)); }
"""
BOUND = """
controlflowstar(call(long outer(double x, long a)), call(long leaf(long l))) && return(r) && if (l > 10)
    then after { report("%g %ld %ld %ld", x, a, l, r); };
controlflow(call(long outer(double x, long a)), call(long leaf(long l))) then inplace { return proceed(l + (long)x); };
call(long outer(double x, long a)) then inplace { return proceed(x * 2, a + 1); };
"""


def test_bound_arguments_of_enclosing_functions_are_those_that_they_run_with(tmp_path: Path) -> None:
    """Advice has passed on other arguments than those that came."""
    path = tmp_path / "bound.aspect"
    path.write_text(BOUND)
    with rounds(build(tmp_path, ARGUMENTS)) as program:
        assert program.ask() == "44"
        with gilk.attach(program.pid) as target, gilk.weave(path, target) as weaving:
            assert program.ask() == str(5 * 10 + 1 + (5 + 5 + 1))
            assert [one.text for one in weaving.reports()] == ["5 5 50 51"]
        assert program.ask() == "44"
