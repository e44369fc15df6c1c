/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * User-level threads that take turns by a signal: its handler calls
 * swapcontext(), so that all but one wait in a handler at any time. All
 * compute the same, each a given number of times.
 */
#include "check.h"

#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

enum { FEW = 8, MANY = 24, STEPS = 4000 };

static ucontext_t contexts[MANY], home;
static char stacks[MANY][128 << 10];
static volatile int count, running;
static volatile long wanted, done[MANY], turns;
static uint64_t expected;

NOINLINE static uint64_t hot(int n, uint64_t a, uint64_t b)
{
	for (int i = 0; i < n; i++) {
		if (a & 1)
			a = a * 3 + 1;
		else
			a = a / 2 + b;
		b ^= a << 3;
	}
	return a ^ b;
}

static int all_done(void)
{
	for (int i = 0; i < count; i++)
		if (done[i] < wanted)
			return 0;
	return 1;
}

static void hold(int how)
{
	sigset_t alarm;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	CHECK(!sigprocmask(how, &alarm, NULL), "sigprocmask");
}

static void work(int self)
{
	hold(SIG_UNBLOCK);
	while (!all_done()) {
		uint64_t found = hot(STEPS, 1, 2);

		CHECK(found == expected, "thread %d computed %#lx", self, (unsigned long)found);
		done[self]++;
	}
	hold(SIG_BLOCK);
	setcontext(&home);
}

static void take_turns(int number, siginfo_t *info, void *raw)
{
	int from = running;

	(void)number, (void)info, (void)raw;
	turns++;
	running = (running + 1) % count;
	CHECK(!swapcontext(&contexts[from], &contexts[running]), "swapcontext");
}

static void among(int threads, long amount)
{
	struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };

	count = threads;
	wanted = amount;
	running = 0;
	hold(SIG_BLOCK);
	for (int i = 0; i < threads; i++) {
		done[i] = 0;
		CHECK(!getcontext(&contexts[i]), "getcontext");
		contexts[i].uc_stack.ss_sp = stacks[i];
		contexts[i].uc_stack.ss_size = sizeof stacks[i];
		makecontext(&contexts[i], (void (*)(void))work, 1, i);
	}
	CHECK(!setitimer(ITIMER_REAL, &often, NULL), "setitimer");
	swapcontext(&home, &contexts[0]);
	CHECK(!setitimer(ITIMER_REAL, &never, NULL), "setitimer");
	CHECK(turns > 0, "the signal did not come");
}

static void one_round(long amount)
{
	struct sigaction action = { .sa_sigaction = take_turns, .sa_flags = SA_SIGINFO | SA_RESTART };

	expected = hot(STEPS, 1, 2);
	CHECK(!sigaction(SIGALRM, &action, NULL), "sigaction");
	among(FEW, amount);
	among(MANY, amount);
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "green", 20, one_round);
}
