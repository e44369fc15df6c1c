/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Two hundred short threads, eight at a time: each calls hot() a known number of times, with thread-local state. */
#include "check.h"

#include <pthread.h>

enum { AT_ONCE = 8, CALLS = 50 };

static __thread uint64_t local;

NOINLINE uint64_t hot(uint64_t x);
NOINLINE uint64_t hot(uint64_t x)
{
	if (x & 1)
		local += x;
	else
		local ^= x;
	for (int i = 0; i < 4; i++)
		x = x * 3 + (uint64_t)i;
	BARRIER();
	return x;
}

static uint64_t work(uint64_t seed)
{
	uint64_t sum = 0;

	local = 0;
	for (uint64_t i = 0; i < CALLS; i++)
		sum += hot(seed + i);
	return sum ^ local;
}

static void *body(void *seed)
{
	return (void *)work((uintptr_t)seed);
}

/* Half of the threads end by pthread_exit, from a frame further down. */
static void *exiting_body(void *seed)
{
	pthread_exit((void *)work((uintptr_t)seed));
}

static void one_round(long amount)
{
	pthread_t thread[AT_ONCE];
	void *result;

	for (long first = 0; first < amount; first += AT_ONCE) {
		long count = amount - first < AT_ONCE ? amount - first : AT_ONCE;

		for (long i = 0; i < count; i++)
			CHECK(!pthread_create(&thread[i], NULL, i & 1 ? exiting_body : body, (void *)(first + i)),
			      "pthread_create");
		for (long i = 0; i < count; i++) {
			CHECK(!pthread_join(thread[i], &result), "pthread_join");
			CHECK((uint64_t)result == work((uint64_t)(first + i)), "thread %ld is wrong", first + i);
		}
	}
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "threads", 200, one_round);
}
