/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Coroutines that a few instructions switch, as libraries of them do: stacks of 16 KiB, left in the middle of calls. */
#include "kind.h"

#define COROUTINES 8
#define STACK (16 << 10)

static char stacks[COROUTINES][STACK] __attribute__((aligned(64)));
static void *contexts[COROUTINES], *scheduler;
static long states[COROUTINES];
static int current;

/* switch_to(&from, to): saves the callee-saved registers on the stack that it leaves. */
void switch_to(void **from, void *to);
__asm__(".text\n.globl switch_to\n.type switch_to, @function\n"
	"switch_to: push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
	"mov %rsp, (%rdi); mov %rsi, %rsp\n"
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret\n"
	".size switch_to, .-switch_to\n");

NOINLINE void yield(void)
{
	switch_to(&contexts[current], scheduler);
}

NOINLINE long deeper(long x, int depth)
{
	if (depth)
		x = deeper(x, depth - 1) + 1;
	else
		yield();
	return work(x);
}

static void body(void)
{
	for (;;)
		states[current] = deeper(states[current], 4);
}

static void once(void)
{
	long sum = 0;

	for (int turn = 0; turn < 9; turn++)
		for (current = 0; current < COROUTINES; current++)
			switch_to(&scheduler, contexts[current]);
	for (current = 0; current < COROUTINES; current++)
		sum += states[current];
	printf("%lx\n", sum);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	(void)argv;
	for (int i = 0; i < COROUTINES; i++) {
		void **top = (void **)(stacks[i] + STACK) - 2;

		top[0] = (void *)body;
		contexts[i] = top - 6;
	}
	return attend(argc, once);
}
