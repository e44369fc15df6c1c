# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice that is taken out while a call waits in it: the call returns to its caller as if there had been no advice."""

from __future__ import annotations

from pathlib import Path

import pytest

from gilk.session.advising import advice
from tests.behaviour.advised import build, rounds, session, waiting
from tests.behaviour.harness import differences, leftovers

WAITS = waiting("", "waiter", 10)


@pytest.mark.parametrize("then", ["ends", "removed", "again", "planned anew"])
def test_suspended_advice_is_dropped_when_it_is_taken_out(tmp_path: Path, then: str) -> None:
    """The advice is not dropped if the function's patch is only planned anew, because another probe comes."""
    text = advice("long f(long n) { return proceed() + proceed(n * 10); }", "f", "long waiter(long n)")
    with rounds(build(tmp_path, WAITS)) as program:
        with session(program.pid) as one:
            probes = one.advise("waiter:entry", advice("long f(long n) { return proceed() + 100; }", "f",
                                                       "long waiter(long n)"))  # fmt: skip
            assert program.ask() == "waits"
            if then == "removed":
                one.remove(probes)
            elif then == "again":
                one.remove(probes)
                one.advise("waiter:entry", text)
            elif then == "planned anew":
                one.insert("waiter:entry", "count")
            if then != "ends":
                assert program.ask() == ("111" if then == "planned anew" else "11")
        assert not differences(program.pid) and not leftovers(program.pid)
        if then == "ends":
            assert program.ask() == "11"


CALLER_KEEPS = """
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>
atomic_int inside, leave;
struct seen { unsigned long integers[6]; double vectors[8]; } seen;
/* It changes rax and its flags alone; who sees that may count on all other registers. */
__asm__(".globl waiter; .type waiter, @function; waiter: movl $1, inside(%rip); mov %rdi, %rax;"
	" 1: cmpl $0, leave(%rip); jz 1b; ret; .size waiter, . - waiter");
static void *thread(void *unused)
{
	register unsigned long r8 __asm__("r8") = 108, r9 __asm__("r9") = 109, r10 __asm__("r10") = 110;
	unsigned long rdi = 10, rsi = 101, rdx = 102, rcx = 103;
	register double x0 __asm__("xmm0") = 200, x1 __asm__("xmm1") = 201, x7 __asm__("xmm7") = 207;
	__asm__ volatile("sub $128, %%rsp; call waiter; add $128, %%rsp" : "+D"(rdi), "+S"(rsi), "+d"(rdx), "+c"(rcx),
		"+r"(r8), "+r"(r9), "+r"(r10), "+x"(x0), "+x"(x1), "+x"(x7) : : "rax", "cc", "memory");
	printf("%lu %lu %lu %lu %lu %lu %lu %g %g %g\\n", rdi, rsi, rdx, rcx, r8, r9, r10, x0, x1, x7);
	return unused;
}
static void one_round(void)
{
	static pthread_t id;
	if (!inside) {
		if (pthread_create(&id, 0, thread, 0)) return;
		while (!inside) usleep(1000);
		puts("waits");
		return;
	}
	leave = 1;
	pthread_join(id, 0);
	inside = leave = 0;
}
"""
KEPT = "10 101 102 103 108 109 110 200 201 207"
OVERWRITES = """
#include <stdio.h>
volatile double half = 0.5;
{result} f({declared})
{{
	char s[64];
	snprintf(s, sizeof s, "%f", (double)half);
	__asm__ volatile("" : : : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm7");
	return proceed({given});
}}"""


@pytest.mark.parametrize(
    ("signature", "given", "kept"),
    [
        ("long waiter(long n)", "n", KEPT),
        ("long waiter(long n)", "n + 1", KEPT.replace("10 ", "11 ", 1)),
        ("long waiter(long n, long m)", "n, m", KEPT),
        ("long waiter(long n, double x, long m)", "n, x, m", KEPT),
        ("long waiter(long a, long b, long c, long d, long e, long g, double x, double y)",
         "a, b, c, d, e, g, x, y", KEPT),
    ],
)  # fmt: skip
def test_a_call_that_loses_its_advice_returns_with_its_callers_registers(
    tmp_path: Path, signature: str, given: str, kept: str
) -> None:
    """The exceptions are the arguments that proceed() was given."""
    declared = signature.partition("(")[2].rstrip(")")
    text = OVERWRITES.format(result="long", declared=declared, given=given)
    with rounds(build(tmp_path, CALLER_KEEPS)) as program:
        with session(program.pid) as one:
            one.advise("waiter:entry", advice(text, "f", signature))
            assert program.ask() == "waits"
        assert program.ask() == kept
