# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice on functions that end in jumps to others; plain arithmetic gives the program's expected results."""

from __future__ import annotations

from pathlib import Path

import pytest

from gilk.session.advised_session import AdvisedSession
from gilk.session.base import Probe
from tests.behaviour.advised import COMPILERS, TAILS, after, build, inplace, jumps, rounds, session, waiting
from tests.behaviour.harness import differences, leftovers
from tests.seldom import seldom

#: Opaque to compilers, so that every jump stays. `one` and `two` share `shared`, which may also be called.
CHAIN = """
#define HIDDEN __asm__ volatile("")
NOINLINE long last(long n) { HIDDEN; return n + 1; }
NOINLINE long middle(long n) { HIDDEN; return last(n * 2); }
NOINLINE long first(long n) { HIDDEN; return n < 0 ? -1 : middle(n + 3); }
NOINLINE long shared(long n) { HIDDEN; return n + 1; }
NOINLINE long one(long n) { HIDDEN; return shared(n * 10); }
NOINLINE long two(long n) { HIDDEN; if (n > 100) return n; return shared(n * 100); }
NOINLINE long both(long n) { HIDDEN; if (n % 2) return one(n); return two(n); }
static long (*volatile table[])(long) = {first, one, two, shared, both};
static void one_round(void)
{
	long called = shared(5);
	printf("%ld %ld %ld %ld %ld %ld %ld\\n", first(4), one(7), two(7), two(200), both(3), both(4), called);
	(void)table;
}
"""
PLAIN = "15 71 701 200 31 401 6"


@pytest.fixture(scope="module", params=COMPILERS)
def chain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = build(tmp_path_factory.mktemp("chain"), CHAIN, *TAILS, compiler=request.param)
    for function, target in (("first", "middle"), ("middle", "last"), ("one", "shared"), ("two", "shared")):
        assert jumps(program, function, target)
    assert jumps(program, "both", "one") and jumps(program, "both", "two")
    return program


#: The last sets have the advice of those before in another order, or only some of it.
ADVICE = [
    ((("first", "after", "return r + n * 1000;"),), "4015 71 701 200 31 401 6"),
    ((("first", "inplace", "return proceed(n + 1) * 100 + proceed();"),), "1715 71 701 200 31 401 6"),
    ((("first", "after", "return r + 1000;"), ("last", "after", "return -r;")), "985 71 701 200 31 401 6"),
    ((("first", "after", "return r * 10;"), ("middle", "after", "return r * 2 + 1;"), ("last", "after", "return r + n;")),
     "590 71 701 200 31 401 6"),
    ((("first", "after", "return r + 1000;"), ("last", "inplace", "pass();")), "1015 71 701 200 31 401 6"),
    ((("first", "after", "return r + 1000;"), ("last", "inplace", "return proceed() + proceed(1);")),
     "1017 71 701 200 31 401 6"),
    ((("one", "after", "return r + n * 1000;"), ("two", "after", "return r + n * 10000;")),
     "15 7071 70701 2000200 3031 40401 6"),
    ((("shared", "after", "return r * 2;"), ("one", "after", "return r + 1000;"), ("both", "inplace", "return -proceed();")),
     "15 1142 1402 200 -1062 -802 12"),
    ((("both", "after", "return r + n;"), ("shared", "inplace", "return n == 5 ? -5 : n == 30 ? 1 : proceed();")),
     "15 71 701 200 4 405 -5"),
    ((("middle", "after", "return r + 1000;"),), "1015 71 701 200 31 401 6"),
    ((("last", "after", "return -r;"), ("first", "after", "return r + 1000;")), "985 71 701 200 31 401 6"),
    ((("first", "after", "return r + 1000;"), ("last", "inplace", "return 7;")), "1007 71 701 200 31 401 6"),
    ((("last", "inplace", "return 7;"), ("first", "after", "return r + 1000;")), "1007 71 701 200 31 401 6"),
    ((("first", "inplace", "return n;"), ("middle", "after", "return 1;")), "4 71 701 200 31 401 6"),
    ((("both", "after", "return -r;"), ("one", "after", "return r + 1000;"), ("shared", "after", "return r * 2;")),
     "15 1142 1402 200 -1062 -802 12"),
]  # fmt: skip


def put_in(one: AdvisedSession, function: str, when: str, body: str) -> tuple[Probe, ...]:
    return after(one, function, body) if when == "after" else inplace(one, function, body)


@pytest.mark.parametrize("case", seldom(((case,) for case in ADVICE), 3), ids=range(len(ADVICE)))
def test_functions_that_end_in_jumps_return_the_results_of_their_advised_calls(
    chain: Path, case: tuple[tuple[tuple[str, str, str], ...], str]
) -> None:
    pieces, expected = case
    with rounds(chain) as program:
        assert program.ask() == PLAIN
        with session(program.pid) as one:
            for piece in pieces:
                put_in(one, *piece)
            assert program.ask() == expected
            assert program.ask() == expected
        assert one.restored
        assert program.ask() == PLAIN
        assert not differences(program.pid) and not leftovers(program.pid)


def test_advice_is_removed_in_any_order_and_the_rest_stays(chain: Path) -> None:
    with rounds(chain) as program, session(program.pid) as one:
        first = after(one, "both", "return -r;")
        second = after(one, "one", "return r + 1000;")
        third = after(one, "shared", "return r * 2;")
        assert program.ask() == "15 1142 1402 200 -1062 -802 12"
        one.remove(second)
        assert program.ask() == "15 142 1402 200 -62 -802 12"
        one.remove(first)
        assert program.ask() == "15 142 1402 200 62 802 12"
        after(one, "both", "return -r;")
        one.remove(third)
        assert program.ask() == "15 71 701 200 -31 -401 6"


def test_probes_name_the_functions_into_which_a_comparison_was_inserted(chain: Path) -> None:
    with rounds(chain) as program, session(program.pid) as one:
        made = after(one, "first", "return r;")
        assert {probe.row.function for probe in made} == {"first", "middle", "last"}
        assert all(probe.refusal is None for probe in made)


#: One place calls both, at the same depth: a call left by longjmp must not be taken for the next one that returns
#: there.
LEFT = """
#include <setjmp.h>
#define HIDDEN __asm__ volatile("")
static jmp_buf back;
static volatile long leave_first, leave_last;
NOINLINE long last(long n) { HIDDEN; if (n == leave_last) longjmp(back, 1); return n + 1; }
NOINLINE long first(long n) { HIDDEN; if (n == leave_first) longjmp(back, 1); return last(n * 2); }
static long (*volatile table[2])(long) = {first, last};
NOINLINE long call(long which, long n) { long r = table[which](n); HIDDEN; return r + 100; }
static void one_round(void)
{
	volatile long sum = 0, left = 0;
	for (volatile long n = 0; n < 600; n++) {
		leave_first = n % 3 == 1 ? n : -1;
		leave_last = n % 3 == 2 ? n * 2 : -1;
		if (setjmp(back)) {
			left++;
			leave_first = leave_last = -1;
			sum += call(1, n); /* of the second function alone */
		} else {
			sum += call(0, n);
		}
	}
	printf("%ld %ld\\n", sum, left);
}
"""


@pytest.mark.parametrize("compiler", COMPILERS)
def test_abandoned_calls_are_not_confused_with_later_calls_at_the_same_stack_place(
    tmp_path: Path, compiler: str
) -> None:
    program = build(tmp_path, LEFT, *TAILS, compiler=compiler)
    assert jumps(program, "first", "last")
    total = sum(n * 2 + 101 if n % 3 == 0 else n + 101 for n in range(600))
    with rounds(program) as running:
        assert running.ask() == f"{total} 400"
        with session(running.pid) as one:
            after(one, "first", "return r + 1000000;")
            for _ in range(3):
                assert running.ask() == f"{total + 200 * 1000000} 400"
            after(one, "last", "return r + 1000;")
            assert running.ask() == f"{total + 200 * 1000000 + 600 * 1000} 400"
        assert running.ask() == f"{total} 400"


#: Conditional jumps to another function, taken or not; and a part whose loop comes back to its own beginning.
WRITTEN = """
#include <setjmp.h>
long first(long n), last(long n), loops(long n), begins(long n);
__asm__(".text; .globl first; .type first, @function; first: cmp $5, %rdi; jl last; ja last; call leave;"
	" ret; .size first, . - first;"
	".globl last; .type last, @function; last: lea 1(%rdi), %rax; ret; .size last, . - last;"
	".globl loops; .type loops, @function; loops: sub $1, %rdi; jg loops; mov $40, %eax; ret; .size loops, . - loops;"
	".globl begins; .type begins, @function; begins: jmp loops; .size begins, . - begins");
static jmp_buf back;
NOINLINE void leave(void) { longjmp(back, 1); }
static long (*volatile table[4])(long) = {first, last, begins, loops};
NOINLINE long call(long which, long n) { long r = table[which](n); __asm__ volatile(""); return r; }
static void one_round(void)
{
	printf("%ld %ld ", call(0, 4), call(0, 6));
	if (!setjmp(back)) call(0, 5);
	printf("%ld %ld %ld %ld\\n", call(1, 10), call(2, 5), call(2, 0), call(3, 3));
}
"""


def test_advice_on_functions_with_conditional_tail_jumps_and_loops_to_the_start(tmp_path: Path) -> None:
    with rounds(build(tmp_path, WRITTEN, *TAILS)) as program:
        assert program.ask() == "5 7 11 40 40 40"
        with session(program.pid) as one:
            after(one, "first", "return r + 1000;")
            assert program.ask() == "1005 1007 11 40 40 40"
            after(one, "begins", "return r + n;")
            assert program.ask() == "1005 1007 11 45 40 40"
            after(one, "last", "return -r;")
            assert program.ask() == "995 993 -11 45 40 40"
        assert program.ask() == "5 7 11 40 40 40"


MUTUAL = """
#define HIDDEN __asm__ volatile("")
long odd(long n, long sum);
NOINLINE long even(long n, long sum) { HIDDEN; return n ? odd(n - 1, sum + n) : sum; }
NOINLINE long odd(long n, long sum) { HIDDEN; return n ? even(n - 1, sum + n * 1000) : -sum; }
NOINLINE long from(long n) { HIDDEN; return even(n, 0); }
static void one_round(void) { printf("%ld %ld %ld\\n", from(4), from(3), even(100000, 0)); }
"""


@pytest.mark.parametrize("compiler", COMPILERS)
def test_advice_on_functions_that_jump_to_each_other(tmp_path: Path, compiler: str) -> None:
    """Each jump to a function with advice counts as a call of it."""
    program = build(tmp_path, MUTUAL, *TAILS, compiler=compiler)
    assert jumps(program, "even", "odd") and jumps(program, "odd", "even") and jumps(program, "from", "even")
    plain = [4 + 3000 + 2 + 1000, -(3 + 2000 + 1), sum(n if n % 2 == 0 else 1000 * n for n in range(100001))]
    with rounds(program) as running:
        assert running.ask() == " ".join(map(str, plain))
        with session(running.pid) as one:
            after(one, "from", "return r + 1000000;")
            assert running.ask() == f"{plain[0] + 1000000} {plain[1] + 1000000} {plain[2]}"
            made = after(one, "odd", "return r + 1;", "long n, long sum")
            assert running.ask().split()[:2] == [str(plain[0] + 1000000 + 2), str(plain[1] + 1000000 + 2)]
            one.remove(made)
            after(one, "even", "return r * 2;", "long n, long sum")
            assert running.ask().split()[:2] == [str(plain[0] * 8 + 1000000), str(plain[1] * 4 + 1000000)]
        assert running.ask() == " ".join(map(str, plain))


THROWN = """
#include <stdexcept>
#define HIDDEN __asm__ volatile("")
extern "C" NOINLINE long last(long n) { HIDDEN; if (n % 4 == 0) throw std::runtime_error("four"); return n; }
extern "C" NOINLINE long first(long n) { HIDDEN; if (n % 5 == 0) throw std::runtime_error("five"); return last(n); }
static long (*volatile table[2])(long) = {first, last};
extern "C" NOINLINE long call(long which, long n) { long r = table[which](n); HIDDEN; return r + 1; }
static void one_round(void)
{
	long caught = 0, sum = 0;
	for (long n = 0; n < 400; n++)
		try { sum += call(0, n); } catch (const std::exception &e) { caught++; sum += call(1, 4 * n + 1); }
	printf("%ld %ld\\n", caught, sum);
}
"""


def test_exceptions_pass_through_functions_that_were_jumped_to(tmp_path: Path) -> None:
    plain = sum(n + 1 if n % 4 and n % 5 else 4 * n + 2 for n in range(400))
    with rounds(build(tmp_path, THROWN, *TAILS, compiler="g++")) as program:
        assert program.ask() == f"160 {plain}"
        with session(program.pid) as one:
            after(one, "first", "return r + 1000;")
            assert [program.ask() for _ in range(2)] == [f"160 {plain + 240 * 1000}"] * 2
            inplace(one, "last", "return proceed() + 7;")
            assert [program.ask() for _ in range(2)] == [f"160 {plain + 240 * 1000 + 400 * 7}"] * 2
        assert program.ask() == f"160 {plain}"


WAITS = waiting("""\
NOINLINE long second(long n) { __asm__ volatile(""); return waiter(n + 10); }
NOINLINE long first(long n) { __asm__ volatile(""); return second(n + 100); }
""", "first", 1)  # fmt: skip


@pytest.mark.parametrize(
    ("gone", "expected"),
    seldom(
        [
            ((1,), 1114),
            ((0, 2), 1120),
            ((0, 1, 2), 112),
            ((), 2140),
            ((0,), 1140),
            ((2,), 2120),
            ((0, 1), 114),
            ((1, 2), 1112),
        ],
        3,
    ),
)
def test_some_of_several_advices_suspended_in_one_call_are_removed(
    tmp_path: Path, gone: tuple[int, ...], expected: int
) -> None:
    """The function returns 112. To that 2 is added, then it is multiplied by 10, then 1000 is added."""
    with rounds(build(tmp_path, WAITS, *TAILS)) as program:
        with session(program.pid) as one:
            made = [
                after(one, "first", "return r + 1000;"), after(one, "second", "return r * 10;"),
                inplace(one, "waiter", "return proceed() + 2;"),
            ]  # fmt: skip
            assert program.ask() == "waits"
            one.remove(probe for n in gone for probe in made[n])
            assert program.ask() == str(expected)
        assert not differences(program.pid) and not leftovers(program.pid)
