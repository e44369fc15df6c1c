/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Two coroutines play ping-pong by swapcontext, from inside nested calls; a third ends by uc_link. */
#include "check.h"

#include <ucontext.h>

static ucontext_t home, ping, pong, brief;
static char stacks[3][65536];
static long turns, bounces, ended;

NOINLINE long bounce(ucontext_t *from, ucontext_t *to, long depth);
NOINLINE long bounce(ucontext_t *from, ucontext_t *to, long depth)
{
	if (depth)
		return bounce(from, to, depth - 1) + 1;
	bounces++;
	BARRIER();
	swapcontext(from, to);
	return 0;
}

static void play(int first)
{
	ucontext_t *self = first ? &ping : &pong, *peer = first ? &pong : &ping;

	for (;;) {
		long depth = bounces % 7, got = bounce(self, bounces < turns ? peer : &home, depth);

		CHECK(got == depth, "a coroutine came back from depth %ld with %ld", depth, got);
	}
}

static void end(int low, int high)
{
	ended += low == 3 && high == 4;
}

static void make(ucontext_t *context, int stack, ucontext_t *next)
{
	CHECK(!getcontext(context), "getcontext");
	context->uc_stack.ss_sp = stacks[stack];
	context->uc_stack.ss_size = sizeof stacks[stack];
	context->uc_link = next;
}

static void one_round(long amount)
{
	turns = amount;
	bounces = 0;
	make(&ping, 0, NULL);
	makecontext(&ping, (void (*)(void))play, 1, 1);
	make(&pong, 1, NULL);
	makecontext(&pong, (void (*)(void))play, 1, 0);
	swapcontext(&home, &ping);
	CHECK(bounces == amount + 1, "%ld bounces, of %ld", bounces, amount + 1);

	ended = 0;
	make(&brief, 2, &home);
	makecontext(&brief, (void (*)(void))end, 2, 3, 4);
	swapcontext(&home, &brief);
	CHECK(ended == 1, "the short coroutine did not end");
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "ucontext", 5000, one_round);
}
