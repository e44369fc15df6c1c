/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Eight threads that work only when they are told to: each byte of standard input is a round, of which every thread
 * makes a known number of calls of each of four functions. "round N" is printed when none of them is in one any more.
 *
 * At the end of the input it ends. Without `loop` there is one round.
 */
#include "check.h"

#include <pthread.h>

enum { THREADS = 8, CALLS = 2000 };

#define FUNCTION(name, step)                   \
	NOINLINE uint64_t name(uint64_t x);    \
	NOINLINE uint64_t name(uint64_t x)     \
	{                                      \
		for (int i = 0; i < (step); i++) \
			x = x * 5 + (step);    \
		BARRIER();                     \
		return x;                      \
	}

FUNCTION(one, 1)
FUNCTION(two, 2)
FUNCTION(three, 3)
FUNCTION(four, 4)

static pthread_barrier_t begin, end;
static int over;
static uint64_t results[THREADS];

static uint64_t work(void)
{
	uint64_t x = 1;

	for (int i = 0; i < CALLS; i++)
		x = four(three(two(one(x))));
	return x;
}

static void *run(void *place)
{
	for (;;) {
		pthread_barrier_wait(&begin);
		if (over)
			return NULL;
		*(uint64_t *)place = work();
		pthread_barrier_wait(&end);
	}
}

static void one_round(void)
{
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&end);
	for (int i = 1; i < THREADS; i++)
		CHECK(results[i] == results[0], "thread %d is wrong", i);
}

static void rounds(void)
{
	char byte;

	puts("ready");
	fflush(stdout);
	for (long number = 1; read(0, &byte, 1) == 1; number++) {
		one_round();
		printf("round %ld\n", number);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS];

	check_name = "rounds";
	CHECK(!pthread_barrier_init(&begin, NULL, THREADS + 1), "pthread_barrier_init");
	CHECK(!pthread_barrier_init(&end, NULL, THREADS + 1), "pthread_barrier_init");
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, run, &results[i]), "pthread_create");
	if (argc > 1 && !strcmp(argv[1], "loop"))
		rounds();
	else
		one_round();
	over = 1;
	pthread_barrier_wait(&begin);
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(thread[i], NULL), "pthread_join");
	puts("ok rounds");
	return 0;
}
