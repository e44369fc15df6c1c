/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls one small function as fast as it can and prints, about every 20 ms,
 * what a call costs, in nanoseconds:
 *
 *	hot FUNCTION [BATCHES [BURST]]		FUNCTION: leaf, blocks
 *
 * With BURST, a batch is that many calls, and 10 ms of sleep follow it: a
 * tool that records every call can then keep up, and what is measured is a
 * record, not a drop. The first line is "ready"; the last, on the end of
 * BATCHES or SIGTERM, is "calls N". Build with -O2: `leaf` keeps its local in the red zone, which a
 * probe that pushes without stepping over it destroys, and then the program
 * ends with status 3.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 500
#define BATCH_NS 20e6

static volatile sig_atomic_t stopped;

__attribute__((noinline, noclone)) long leaf(long x)
{
	volatile long kept = x;

	return kept * 3 + 1;
}

/* Five to seven blocks a call, by way of a loop, a branch and a switch. */
__attribute__((noinline, noclone)) long blocks(long x)
{
	long sum = 0;

	for (long i = x & 1; i < 2; i++)
		sum += (x & 2) ? i : x;
	switch (x & 3) {
	case 0: sum += 5; break;
	case 1: sum ^= x; break;
	case 2: sum = -sum; break;
	default: sum *= 3; break;
	}
	return sum;
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static long batch(long (*call)(long), int checked, long burst)
{
	double start = now_ns(), spent;
	long calls = 0, wrong = 0;

	do {
		for (long i = 0; i < CHUNK; i++) {
			long got = call(i);

			wrong |= checked && got != i * 3 + 1;
		}
		calls += CHUNK;
		spent = now_ns() - start;
	} while (burst ? calls < burst : spent < BATCH_NS);
	printf("%.3f\n", spent / calls);
	fflush(stdout);
	if (wrong)
		exit(3);
	if (burst)
		usleep(10000);
	return calls;
}

int main(int argc, char **argv)
{
	int is_leaf = argc < 2 || !strcmp(argv[1], "leaf");
	long left = argc > 2 ? atol(argv[2]) : -1, burst = argc > 3 ? atol(argv[3]) : 0, calls = 0;

	signal(SIGTERM, stop);
	puts("ready");
	while (left-- && !stopped)
		calls += batch(is_leaf ? leaf : blocks, is_leaf, burst);
	printf("calls %ld\n", calls);
	return 0;
}
