/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tiles of AMX are live in blocks and across calls, in two threads. A timer interrupts them, so that the tiles are
 * in signal frames; the handler uses tiles of its own.
 */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include "tiles.h"

static volatile int over;

static void handle(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info, (void)context;
	CHECK(tiles_last((uint64_t)info, 0), "tiles of a handler differ");
}

static void *hold(void *argument)
{
	for (uint64_t i = (uint64_t)argument; !over; i++)
		CHECK(tiles_last(i, 0), "tiles of a thread differ");
	return NULL;
}

static void one_round(long amount)
{
	struct itimerval often = { { 0, 3000 }, { 0, 3000 } }, never = { 0 };
	pthread_t thread;

	over = 0;
	CHECK(!pthread_create(&thread, NULL, hold, NULL), "no thread");
	setitimer(ITIMER_PROF, &often, NULL);
	for (long i = 0; i < amount; i++)
		CHECK(tiles_last((uint64_t)i << 20, 0), "tiles differ");
	setitimer(ITIMER_PROF, &never, NULL);
	over = 1;
	CHECK(!pthread_join(thread, NULL), "no end");
}

static void nothing(long amount)
{
	(void)amount;
	for (int i = 0; i < 1000; i++)
		tiles_quiet();
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART };

	if (!tiles_allowed()) {
		puts("skipped: this processor has no AMX");
		return run_rounds(argc, argv, "amx", 1, nothing);
	}
	sigaction(SIGPROF, &action, NULL);
	return run_rounds(argc, argv, "amx", 2000, one_round);
}
