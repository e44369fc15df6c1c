/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A 1 kHz timer interrupts hot loops; three kinds of handler count, and disturb nothing. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t plain, detailed, alternate;
static char other_stack[65536];

NOINLINE uint64_t hot(uint64_t x);
NOINLINE uint64_t hot(uint64_t x)
{
	volatile uint64_t slot[4] = { x, x + 1, x ^ 3, x * 5 };

	if (x & 1)
		slot[0] += slot[3];
	for (int i = 0; i < 3; i++)
		slot[i + 1] ^= slot[i] << 1;
	return slot[0] + slot[1] + slot[2] + slot[3];
}

static void on_plain(int number)
{
	plain += number == SIGALRM;
	hot((uint64_t)plain);
}

static void on_detailed(int number, siginfo_t *info, void *context)
{
	detailed += number == SIGVTALRM && info->si_signo == SIGVTALRM && context != NULL;
	hot((uint64_t)detailed);
}

static void on_alternate(int number, siginfo_t *info, void *context)
{
	char here;

	(void)info;
	(void)context;
	alternate += number == SIGUSR1 && &here >= other_stack && &here < other_stack + sizeof other_stack;
	hot((uint64_t)alternate);
}

static void install(void)
{
	stack_t stack = { .ss_sp = other_stack, .ss_size = sizeof other_stack, .ss_flags = 0 };
	struct sigaction action = { .sa_handler = on_plain, .sa_flags = SA_RESTART };

	CHECK(!sigaltstack(&stack, NULL), "sigaltstack");
	CHECK(!sigaction(SIGALRM, &action, NULL), "sigaction");
	action.sa_sigaction = on_detailed;
	action.sa_flags = SA_RESTART | SA_SIGINFO;
	CHECK(!sigaction(SIGVTALRM, &action, NULL), "sigaction");
	action.sa_sigaction = on_alternate;
	action.sa_flags = SA_RESTART | SA_SIGINFO | SA_ONSTACK;
	CHECK(!sigaction(SIGUSR1, &action, NULL), "sigaction");
}

static uint64_t sum_of(long turns)
{
	uint64_t sum = 0;

	for (long i = 0; i < turns; i++)
		sum += hot((uint64_t)i);
	return sum;
}

static void set_timers(long microseconds)
{
	struct itimerval every = { .it_interval = { 0, microseconds }, .it_value = { 0, microseconds } };

	CHECK(!setitimer(ITIMER_REAL, &every, NULL), "setitimer");
	CHECK(!setitimer(ITIMER_VIRTUAL, &every, NULL), "setitimer");
}

static void one_round(long amount)
{
	uint64_t expected = sum_of(2000);
	int before = plain, usr1 = alternate;

	set_timers(1000);
	for (long i = 0; i < amount || plain < before + 20; i++) {
		CHECK(sum_of(2000) == expected, "hot() was disturbed by a signal");
		CHECK(!pthread_kill(pthread_self(), SIGUSR1), "pthread_kill");
		CHECK(alternate == ++usr1, "SIGUSR1 %d was not seen on its stack", usr1);
	}
	set_timers(0);
}

int main(int argc, char **argv)
{
	check_name = "signals";
	install();
	return run_rounds(argc, argv, "signals", 500, one_round);
}
