/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Recursion sixty thousand frames deep, through a pair of functions and back. */
#include "check.h"

NOINLINE long down(long depth, long *last);
NOINLINE long left_hand(long depth, long *last);

NOINLINE long down(long depth, long *last)
{
	long seen = -1;

	*last = depth;
	if (depth == 0)
		return 0;
	long below = depth % 3 ? left_hand(depth - 1, &seen) : down(depth - 1, &seen);

	BARRIER();
	return below + (seen == depth - 1);
}

NOINLINE long left_hand(long depth, long *last)
{
	volatile char room[40];
	long seen = -1;

	room[depth % 40] = (char)depth;
	*last = depth;
	if (depth == 0)
		return 0;
	long below = down(depth - 1, &seen);

	BARRIER();
	return below + (seen == depth - 1 && room[depth % 40] == (char)depth);
}

static void one_round(long amount)
{
	long last = 0, got;

	for (int i = 0; i < 3; i++) {
		got = down(amount, &last);
		CHECK(got == amount, "depth %ld counts %ld frames", amount, got);
	}
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "recursion", 60000, one_round);
}
