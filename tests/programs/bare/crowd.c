/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that call one function: crowd THREADS KEYS TIMES. Each calls leaf(key) for every key
 * below KEYS, TIMES times. Build with -pthread.
 */
#include <pthread.h>
#include <stdlib.h>

static long keys, times;

__attribute__((noinline)) long leaf(long key)
{
	__asm__ volatile("" : "+r"(key));
	return key + 1;
}

static void *work(void *start)
{
	for (long n = 0; n < times; n++)
		for (long key = 0; key < keys; key++)
			leaf((key + (long)start) % keys);
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	long count = argc > 3 ? atol(argv[1]) : 0;

	if (count < 1 || count > 64)
		return 2;
	keys = atol(argv[2]);
	times = atol(argv[3]);
	for (long n = 0; n < count; n++)
		if (pthread_create(&threads[n], 0, work, (void *)(n * 7919)))
			return 1;
	for (long n = 0; n < count; n++)
		pthread_join(threads[n], 0);
	return 0;
}
