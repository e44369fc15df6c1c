# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calls that are left by longjmp() or by an exception are under way no more, wherever the thread goes on.

After each jump the thread goes deeper than the call was that it has left, through a function with a large frame that
nobody has woven, and calls ``last`` there. gdb's backtraces say how many calls of ``last`` are within ``first``; in
programs with many jumps, the compiler's own instrumentation of functions does.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import gilk
from tests.behaviour.advised import OPTIONS, aspects, build, rounds
from tests.behaviour.harness import differences, leftovers
from tests.behaviour.test_weave_flow import FLOW
from tests.behaviour.test_weave_walk import gdb_stacks
from tests.seldom import seldom

HEAD = """
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
static volatile int n, leaves;
volatile long sum;
NOINLINE long last(long c) { sum += c; __asm__ volatile(""); return c + 1; }
NOINLINE long deep(long a) { volatile char *room = (volatile char *)alloca(4096); room[0] = 1; long r = last(a); __asm__ volatile(""); return r + room[0]; }
NOINLINE long first(long a);
"""
ROUND = """
static void one_round(void)
{
	for (n = 0; n < 7; n++) {
		leaves = n % 2;
		try_first();
		deep(n);
	}
	printf("%ld\\n", (long)sum);
}
"""
JUMPS = """
static jmp_buf back;
NOINLINE long first(long a) { if (leaves) longjmp(back, 1); long r = last(a); __asm__ volatile(""); return r; }
static void try_first(void) { if (!setjmp(back)) first(n); else deep(n); }
"""
#: The handler runs on another stack, where it calls ``first``, which leaves both.
HANDLED = """
static sigjmp_buf back;
static char other[1 << 16];
NOINLINE long first(long a) { if (leaves) siglongjmp(back, 1); long r = last(a); __asm__ volatile(""); return r; }
static void handler(int number) { first(number); }
static void try_first(void)
{
	stack_t stack = {};
	struct sigaction action = {};

	stack.ss_sp = other;
	stack.ss_size = sizeof other;
	action.sa_handler = handler;
	action.sa_flags = SA_ONSTACK;
	sigaltstack(&stack, 0);
	sigaction(SIGUSR1, &action, 0);
	if (!sigsetjmp(back, 1)) raise(SIGUSR1); else deep(n);
}
"""
THROWS = """
NOINLINE long first(long a) { if (leaves) throw a; long r = last(a); __asm__ volatile(""); return r; }
NOINLINE void try_first(void) { try { first(n); } catch (long a) { deep(a); } }
"""
#: The destructor runs while the exception is under way, after ``first`` was left.
CLEANS = """
NOINLINE long first(long a) { if (leaves) throw a; long r = last(a); __asm__ volatile(""); return r; }
struct Cleans { ~Cleans() { deep(n); } };
NOINLINE void within(void) { Cleans one; first(n); }
NOINLINE void try_first(void) { try { within(); } catch (long) { } }
"""
#: Those that are tested often come first.
CASES = {
    "longjmp": ("gcc", JUMPS, OPTIONS),
    "checked": ("gcc", JUMPS, (*OPTIONS, "-D_FORTIFY_SOURCE=2")),
    "handler": ("gcc", HANDLED, OPTIONS),
    "catch": ("g++", THROWS, OPTIONS),
    "cleanup": ("g++", CLEANS, OPTIONS),
    "_longjmp": ("gcc", JUMPS.replace("longjmp(", "_longjmp("), OPTIONS),
    "static": ("gcc", JUMPS, (*OPTIONS, "-static")),
    "clang": ("clang++", THROWS, OPTIONS),
    "static cleanup": ("g++", CLEANS, (*OPTIONS, "-static")),
}
BY_FIRST = 4
FLOWS = """
aspect star: verify controlflowstar(call(long {first}(long a)), call(long {last}(long c)));
aspect strict: verify controlflow(call(long {first}(long a)), call(long {last}(long c)));
aspect written: verify controlflowstar(call(long {first}(long a)), writeGlobal(long sum));
aspect all: verify call(long {last}(long c));
"""


@pytest.mark.parametrize("name", seldom(CASES, 1))
def test_calls_that_were_left_are_not_under_way(tmp_path: Path, name: str) -> None:
    compiler, source, options = CASES[name]
    binary = build(tmp_path, HEAD + source + ROUND, *options, compiler=compiler)
    around = gdb_stacks(binary, "last")
    expected = [sum("first" in one for one in around), sum("first" in one[1:2] for one in around)]
    assert expected == [BY_FIRST, BY_FIRST], "the calls that were not left"
    names = {"first": "first", "last": "last"}
    if compiler != "gcc":
        names = {"first": "`first(long)`", "last": "`last(long)`"}
    path = aspects(tmp_path, FLOWS.format(**names))
    with rounds(binary) as program:
        with gilk.attach(program.pid) as target, gilk.weave(path, target) as weaving:
            program.ask()
            counts = weaving.counts()
        assert [one.matches[0] for one in counts] == [*expected, BY_FIRST, len(around)]
        assert [(one.unwalked, one.disagreed) for one in counts] == [(0, 0)] * 4
        assert (differences(program.pid), leftovers(program.pid)) == ([], [])


#: Whoever is called after a jump has a large frame now and then, and nothing at its entry.
ROOMY = FLOW.replace("#include <setjmp.h>", "#include <alloca.h>\n#include <setjmp.h>").replace(
    "if (!setjmp(back)) { first(7); second(6); }",
    "if (!setjmp(back)) { first(7); second(6); } else { volatile char *room = alloca(chance(8192)); room[0] = 1; "
    "depth = 0; if (!setjmp(back)) { last(6); between(7); } }",
)


@pytest.mark.parametrize("optimised", ["-O0", "-O2"])
def test_flows_in_a_program_with_many_jumps_agree_with_the_compilers_hooks(tmp_path: Path, optimised: str) -> None:
    assert ROOMY.count("alloca") == 2
    hooked = ("-finstrument-functions", "-fno-optimize-sibling-calls", "-fno-inline", "-fno-ipa-cp")
    path = aspects(
        tmp_path,
        """
        aspect star: controlflowstar(call(long first(long a)), call(long second(long b)), call(long last(long c)));
        aspect strict: controlflow(call(long second(long b)), call(long last(long c)));
        aspect three: controlflow(call(long first(long a)), call(long second(long b)), call(long last(long c)));
        """,
    )
    seen = [0] * 3
    with rounds(build(tmp_path, ROOMY, optimised, *hooked)) as program:
        with gilk.attach(program.pid) as target, gilk.weave(path, target) as weaving:
            for _ in range(10):
                seen = [a + int(b) for a, b in zip(seen, program.ask().split()[:3], strict=True)]
            matched = [one.matches[0] for one in weaving.counts()]
        assert matched == seen
        assert min(seen) > 10, "all of them happen"


OUT_OF_ADVICE = """
#include <setjmp.h>
jmp_buf back, inner;
static volatile long calls;
NOINLINE long last(long c) { calls += c; __asm__ volatile(""); return c; }
NOINLINE long step(long a) { volatile long kept = a; long r = last(kept); __asm__ volatile(""); return r; }
NOINLINE long first(long a) { long r = step(a) + last(0); __asm__ volatile(""); return r; }
static void one_round(void) { for (int n = 0; n < 5; n++) first(1); printf("%ld\\n", (long)calls); }
"""


def test_a_jump_within_advice_leaves_no_call_of_the_program(tmp_path: Path) -> None:
    """Advice that jumps to itself, on its own stack, while ``first`` is under way."""
    path = aspects(
        tmp_path,
        """
        %{ #include <setjmp.h>
        extern jmp_buf inner; %}
        aspect star: verify controlflowstar(call(long first(long a)), call(long last(long c)));
        aspect jumps: call(long step(long a)) then inplace { if (!_setjmp(inner)) longjmp(inner, 1); return proceed(); };
        """,
    )
    with rounds(build(tmp_path, OUT_OF_ADVICE)) as program:
        with gilk.attach(program.pid) as target, gilk.weave(path, target) as weaving:
            assert program.ask() == "5"
            star, jumps = weaving.counts()
        assert (star.matches[0], star.disagreed, jumps.matches[0]) == (10, 0, 5)
        assert (differences(program.pid), leftovers(program.pid)) == ([], [])


LEAVER = """
aspect star: verify controlflowstar(call(long first(long a)), call(long last(long c)));
aspect within: controlflowstar(call(long first(long a)), call(void libc:longjmp(void *env, int value)));
aspect behind: verify controlflowstar(call(void libc:longjmp(void *env, int value)), call(long last(long c)));
aspect replaced: call(void libc:longjmp(void *env, int value)) then inplace { proceed(env, value + 1); };
"""


def test_the_function_that_leaves_others_may_have_advice_itself(tmp_path: Path) -> None:
    """It is called within those that it leaves, and is left, too. It is known by the value that setjmp returns."""
    source = JUMPS.replace(
        "if (!setjmp(back)) first(n); else deep(n);", "int v = setjmp(back); if (!v) first(n); else deep(100 * v);"
    )
    with rounds(build(tmp_path, HEAD + source + ROUND, *OPTIONS)) as program:
        before = int(program.ask())
        with gilk.attach(program.pid) as target, gilk.weave(aspects(tmp_path, LEAVER), target) as weaving:
            assert int(program.ask()) == 2 * before + 3 * 100, "each of three jumps gives 2 for 1"
            counts = {one.name: one for one in weaving.counts()}
        matched = {name: one.matches[0] for name, one in counts.items()}
        assert matched == {"star": BY_FIRST, "within": 3, "behind": 0, "replaced": 3}
        assert {one.disagreed for one in counts.values()} == {0}
        assert (differences(program.pid), leftovers(program.pid)) == ([], [])
