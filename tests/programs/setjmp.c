/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* setjmp, longjmp and their signal-saving forms: out of deep recursion, and into loops. */
#include "check.h"

#include <setjmp.h>
#include <signal.h>

static jmp_buf top;
static sigjmp_buf retry;

NOINLINE int dive(int depth, int value);
NOINLINE int dive(int depth, int value)
{
	volatile int kept = depth * 3;

	if (depth == 0) {
		if (value)
			longjmp(top, value);
		return 0;
	}
	dive(depth - 1, value);
	BARRIER();
	return kept;
}

static void check_deep(int value)
{
	volatile int local = value ^ 0x55;
	int got = setjmp(top);

	if (!got) {
		dive(30, value);
		CHECK(0, "longjmp came back");
	}
	CHECK(got == value, "setjmp gives %d, not %d", got, value);
	CHECK(local == (value ^ 0x55), "a volatile local changed");
}

static void check_loop(void)
{
	volatile int turns = 0, sum = 0;

	_setjmp(top);
	for (; turns < 20;) {
		turns++;
		sum += turns;
		if (turns % 3 == 0)
			_longjmp(top, 1);
	}
	CHECK(sum == 210, "the loop sums to %d", sum);
}

static void on_signal(int number)
{
	siglongjmp(retry, number);
}

static void check_signal(void)
{
	int number = sigsetjmp(retry, 1);

	if (!number)
		raise(SIGUSR1);
	CHECK(number == SIGUSR1, "sigsetjmp gives %d", number);
}

static void one_round(long amount)
{
	for (long i = 1; i <= amount; i++) {
		check_deep((int)i);
		check_loop();
		check_signal();
	}
}

int main(int argc, char **argv)
{
	signal(SIGUSR1, on_signal);
	return run_rounds(argc, argv, "setjmp", 1000, one_round);
}
