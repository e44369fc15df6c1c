# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice before, in place of and after calls of running programs, and calls that are left without returning."""

from __future__ import annotations

import subprocess
import time
from itertools import islice
from pathlib import Path

import pytest

from gilk.errors import GilkError
from gilk.session.advising import advice
from tests.behaviour.advised import build, rounds, session
from tests.behaviour.harness import Loop, differences, leftovers
from tests.programs.build import build as built

ARITHMETIC = """
struct pair { long a; double b; };
NOINLINE long add(long a, long b) { __asm__ volatile(""); return a + b; }
NOINLINE double mix(int a, double x, long b, float y) { __asm__ volatile(""); return a * x + b * y; }
NOINLINE struct pair many(int a, int b, int c, int d, int e, int f, long g, double h, struct pair p)
{
	struct pair r = {a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + p.a, h + p.b};
	__asm__ volatile("");
	return r;
}
NOINLINE long factorial(long n) { __asm__ volatile(""); return n < 2 ? 1 : n * factorial(n - 1); }
static void one_round(void)
{
	struct pair p = {100, 0.5}, r = many(1, 2, 3, 4, 5, 6, 7, 8.5, p);
	printf("%ld %g %ld %g %ld\\n", add(3, 4), mix(2, 1.5, 3, 2.0f), r.a, r.b, factorial(10));
}
"""
PLAIN = "7 9 240 9 3628800"
PAIR = "struct pair { long a; double b; };"
MANY = "struct pair many(int a, int b, int c, int d, int e, int f, long g, double h, struct pair p)"

CASES = [
    ("add", "long f(long a, long b) { return a * 100; }", "long add(long a, long b)", "inplace", "300 9 240 9 3628800"),
    ("add", "long f(long a, long b) { if (b == 4) pass(); return 1; }", "long add(long a, long b)", "inplace", PLAIN),
    ("add", "long f(long a, long b) { if (b == 5) pass(); return 1; }", "long add(long a, long b)", "inplace",
     "1 9 240 9 3628800"),
    ("add", "long f(long a, long b) { return proceed() * 10 + proceed(b, b); }", "long add(long a, long b)", "inplace",
     "78 9 240 9 3628800"),
    ("mix", "double f(int a, double x, long b, float y) { return proceed(a + 1, x, b, y) + 1000; }",
     "double mix(int a, double x, long b, float y)", "inplace", "7 1010.5 240 9 3628800"),
    ("many", "struct pair f(int a, int b, int c, int d, int e, int f, long g, double h, struct pair p) "
     "{ p.a += 1000; struct pair r = proceed(a, b, c, d, e, f, g + 1, h, p), q = proceed(); "
     "r.b *= 2; r.a += q.a * 10000; return r; }", MANY, "inplace", "7 9 2401247 18 3628800"),
    ("factorial", "long f(long r, long n) { return r + 1; }", "long factorial(long n)", "after", "7 9 240 9 9864101"),
    ("factorial", "long f(long n) { return n == 5 ? 0 : proceed(); }", "long factorial(long n)", "inplace",
     "7 9 240 9 0"),
    ("factorial", "long seen; void f(long n) { seen += n; }", "long factorial(long n)", "before", PLAIN),
]  # fmt: skip


@pytest.fixture(scope="module")
def arithmetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("arithmetic"), ARITHMETIC)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_the_program_gets_the_value_that_advice_returns(arithmetic: Path, case: tuple[str, str, str, str, str]) -> None:
    function, text, signature, when, expected = case
    with rounds(arithmetic) as program:
        with session(program.pid) as one:
            one.advise(f"{function}:entry", advice(text, "f", signature, when, PAIR))
            assert program.ask() == expected
            assert program.ask() == expected
        assert program.ask() == PLAIN
        assert one.restored
        assert not differences(program.pid) and not leftovers(program.pid)


@pytest.mark.parametrize("name", ["advice.c", "measured.c"])
def test_an_advice_file_may_have_the_name_of_a_generated_file(arithmetic: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("long f(long a, long b) { return proceed(a, b) + 1; }\n")
    with rounds(arithmetic) as program, session(program.pid) as one:
        one.advise("add:entry", advice(tmp_path / name, "f", "long add(long a, long b)"))
        assert program.ask().startswith("8 ")


def test_advice_on_several_functions_and_two_advices_in_turn_on_one(arithmetic: Path) -> None:
    with rounds(arithmetic) as program, session(program.pid) as one:
        one.advise("add:entry", advice("long f(long r, long a, long b) { return -r; }", "f",
                                       "long add(long a, long b)", "after"))  # fmt: skip
        probes = one.advise("factorial:entry", advice("long f(long n) { return n; }", "f", "long factorial(long n)"))
        assert program.ask() == "-7 9 240 9 10"
        one.remove(probes)
        assert program.ask() == "-7 9 240 9 3628800"
        one.insert("factorial:entry", "count")
        one.advise("factorial:entry", advice("long f(long n) { return proceed() + 1; }", "f", "long factorial(long n)"))
        assert program.ask() == "-7 9 240 9 9864101"
        assert one.counts()["program:factorial:entry"] == 10


REFUSED = [
    ("add", "long add(long a, long)", "bad-signature"),
    ("add", "unknown_type add(long a, long b)", "bad-signature"),
    ("add", "long double add(long a)", "advice-abi"),
    ("printed", "void printed(int n)", "tail-call"),
]


@pytest.mark.parametrize(("function", "signature", "slug"), REFUSED)
def test_impossible_advice_is_refused_by_name_and_changes_nothing(
    tmp_path: Path, function: str, signature: str, slug: str
) -> None:
    source = """
NOINLINE long add(long a, long b) { __asm__ volatile(""); return a + b; }
static int (*volatile show)(const char *, ...) = printf;
NOINLINE void printed(int n) { show("%d\\n", n); }
static void one_round(void) { printed(add(3, 4)); }
"""
    with rounds(build(tmp_path, source, "-O2")) as program, session(program.pid) as one:
        with pytest.raises(GilkError) as caught:
            one.advise(f"{function}:entry", advice("void f(int n) { proceed(); }", "f", signature))
        assert caught.value.slug == slug
        assert not differences(program.pid)
        assert program.ask() == "7"


def test_a_second_piece_of_advice_on_a_function_is_refused(arithmetic: Path) -> None:
    text = advice("long f(long a, long b) { return 1; }", "f", "long add(long a, long b)")
    with rounds(arithmetic) as program, session(program.pid) as one:
        probes = one.advise("add:entry", text)
        with pytest.raises(GilkError) as caught:
            one.advise("add:entry", text)
        assert caught.value.slug == "already-advised"
        one.remove(probes)
        one.advise("add:entry", text)


LONGJMP = """
#include <setjmp.h>
static jmp_buf back;
static long leave;
NOINLINE long leaf(long n) { __asm__ volatile(""); if (n == leave) longjmp(back, 1); return n + 1; }
NOINLINE long middle(long n) { long r = leaf(n); __asm__ volatile(""); return r * 2; }
NOINLINE long deep(long depth, long n) { volatile long room[9]; room[depth % 9] = n;
	return depth ? deep(depth - 1, n) + room[depth % 9] * 0 : middle(n); }
static void one_round(void)
{
	volatile long sum = 0;
	for (volatile long n = 0; n < 3000; n++) {
		leave = n % 3 ? -1 : n;
		if (setjmp(back))
			sum += 1000000;
		else
			sum += deep(n % 5, n);
	}
	printf("%ld\\n", sum);
}
"""


def test_calls_left_by_longjmp_are_not_confused_with_later_calls(tmp_path: Path) -> None:
    """The result counts the calls whose return the advice has seen, no more and no fewer."""
    returned = "long f(long r, long n) { return r + (1L << 40); }"
    with rounds(build(tmp_path, LONGJMP)) as program:
        plain = int(program.ask())
        with session(program.pid) as one:
            one.advise("leaf:entry", advice(returned, "f", "long leaf(long n)", "after"))
            one.advise("middle:entry", advice("long f(long n) { return proceed(); }", "f", "long middle(long n)"))
            for _ in range(5):
                assert int(program.ask()) == plain + 2000 * (2 << 40)
        assert int(program.ask()) == plain


EXCEPTIONS = """
#include <stdexcept>
struct Guard { long *n; ~Guard() { ++*n; } };
extern "C" NOINLINE long thrower(long n) { __asm__ volatile(""); if (n % 4 == 0) throw std::runtime_error("four"); return n; }
extern "C" NOINLINE long between(long n, long *ended) { Guard guard{ended}; long r = thrower(n); __asm__ volatile(""); return r + 1; }
static void one_round(void)
{
	long caught = 0, ended = 0, sum = 0;
	for (long n = 0; n < 400; n++)
		try { sum += between(n, &ended); } catch (const std::exception &e) { caught++; }
	printf("%ld %ld %ld\\n", caught, ended, sum);
}
"""


def test_exceptions_pass_through_suspended_advice(tmp_path: Path) -> None:
    options = ("-O2", "-fno-optimize-sibling-calls")
    with rounds(build(tmp_path, EXCEPTIONS, *options, compiler="g++")) as program:
        caught, ended, total = map(int, program.ask().split())
        assert (caught, ended) == (100, 400)
        with session(program.pid) as one:
            one.advise("thrower:entry", advice("long f(long n) { return proceed() + 1; }", "f", "long thrower(long n)"))
            one.advise("between:entry", advice("long f(long r, long n, long *e) { return r + 10; }", "f",
                                               "long between(long n, long *e)", "after"))  # fmt: skip
            for _ in range(3):
                assert program.ask() == f"100 400 {total + 300 * 11}"
        assert program.ask() == f"100 400 {total}"


THREADS = """
#include <pthread.h>
#include <unistd.h>
NOINLINE long leaver(long n) { __asm__ volatile(""); if (n % 3 == 1) pthread_exit((void *)(n + 7)); if (n % 3 == 2) pause(); return n + 1; }
static void *thread(void *n) { return (void *)leaver((long)n); }
static void one_round(void)
{
	long exited = 0, cancelled = 0, returned = 0;
	for (long n = 0; n < 60; n++) {
		pthread_t id; void *result;
		pthread_create(&id, 0, thread, (void *)n);
		if (n % 3 == 2) pthread_cancel(id);
		pthread_join(id, &result);
		if (result == PTHREAD_CANCELED) cancelled++;
		else if (n % 3 == 1) exited += (long)result == n + 7;
		else returned += (long)result;
	}
	printf("%ld %ld %ld\\n", exited, cancelled, returned);
}
"""


def test_threads_may_end_during_a_call_that_has_advice(tmp_path: Path) -> None:
    with rounds(build(tmp_path, THREADS)) as program:
        exited, cancelled, returned = map(int, program.ask().split())
        assert (exited, cancelled) == (20, 20)
        with session(program.pid) as one:
            text = "long f(long n) { return proceed() + 100; }"
            one.advise("leaver:entry", advice(text, "f", "long leaver(long n)"))
            for _ in range(3):
                assert program.ask() == f"20 20 {returned + 20 * 100}"
        assert program.ask() == f"20 20 {returned}"


CALLS_OUT = """
#include <errno.h>
#include <string.h>
NOINLINE double half(const char *text, double x) { __asm__ volatile(""); errno = 5; return x / 2 + strlen(text); }
static void one_round(void)
{
	errno = 3;
	double r = half("abcd", 9.0);
	printf("%g %d\\n", r, errno);
}
"""


@pytest.mark.parametrize(
    ("text", "when", "expected"),
    [
        ("#include <stdio.h>\n#include <errno.h>\nchar kept[64]; void f(const char *t, double x)"
         "{ snprintf(kept, sizeof kept, \"%s %g\", t, x); errno = 77; }", "before", "8.5 5"),
        ("#include <string.h>\n#include <errno.h>\ndouble f(double r, const char *t, double x)"
         "{ errno = 77; return r + strlen(t) + x; }", "after", "21.5 5"),
        ("#include <string.h>\n#include <errno.h>\ndouble f(const char *t, double x)"
         "{ if (!strcmp(t, \"abcd\")) { errno = 13; return -1; } return proceed(); }", "inplace", "-1 13"),
        ("#include <stdlib.h>\n#include <stdio.h>\ndouble f(const char *t, double x)"
         "{ char *s = malloc(99); snprintf(s, 99, \"longer than %g\", x); double r = proceed(s, x * 2) + x; free(s); return r; }",
         "inplace", "31 5"),
    ],
)  # fmt: skip
def test_advice_may_call_functions_of_the_program(tmp_path: Path, text: str, when: str, expected: str) -> None:
    with rounds(build(tmp_path, CALLS_OUT)) as program:
        assert program.ask() == "8.5 5"
        with session(program.pid) as one:
            one.advise("half:entry", advice(text, "f", "double half(const char *t, double x)", when))
            assert program.ask() == expected
        assert program.ask() == "8.5 5"


CLOBBERS = """
{kind} f({kind} x)
{{
	__asm__ volatile("" : : : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11");
	{more}
	{kind} r = proceed();
	__asm__ volatile("" : : : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11");
	return {result};
}}"""


@pytest.mark.parametrize("result", ["r", "proceed(x)"])
@pytest.mark.parametrize("more", ["", 'char s[99]; snprintf(s, sizeof s, "%f", (double)x);'])
def test_advice_preserves_the_registers_that_the_original_preserves(more: str, result: str) -> None:
    """The callers keep values in these registers; the program checks its results itself."""
    with Loop([built("ipara")]) as program, session(program.pid) as one:
        for name, kind in (("ipara_callee", "long"), ("ipara_leaf", "double")):
            text = "#include <stdio.h>\n" + CLOBBERS.format(kind=kind, more=more, result=result)
            one.advise(f"{name}:entry", advice(text, "f", f"{kind} {name}({kind} x)"))
        one.insert("ipara_callee:entry", "count")
        limit = time.monotonic() + 60
        while one.counts()["ipara:ipara_callee:entry"] < 1000:
            assert time.monotonic() < limit and program.alive()


_MOST_LINES = 50_000_000
COLUMN = """
const unsigned char *f(void *statement, int column)
{
	static const unsigned char text[] = "advised";
	if (column) pass();
	return text;
}"""


def test_a_stock_program_prints_the_text_that_advice_puts_in() -> None:
    asked = subprocess.Popen(["yes", "select 'first', 'second';"], stdout=subprocess.PIPE)
    with asked, subprocess.Popen(["sqlite3"], stdin=asked.stdout, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        try:
            assert program.stdout.readline() == "first|second\n"
            with session(program.pid) as one:
                signature = "const unsigned char *sqlite3_column_text(void *statement, int column)"
                one.advise("libsqlite3*:sqlite3_column_text:entry", advice(COLUMN, "f", signature))
                assert "advised|second\n" in islice(program.stdout, _MOST_LINES)
            assert one.restored and not leftovers(program.pid)
            assert "first|second\n" in islice(program.stdout, _MOST_LINES)
        finally:
            asked.kill()
            program.kill()
