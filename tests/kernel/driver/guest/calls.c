/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * calls NUMBER COUNT [THREADS [YIELD]]: makes that system call, without arguments, so many times in each thread; no other
 * program makes it. After every YIELD calls the thread lets others run.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static long number, count, turn;

static void *call(void *unused)
{
	for (long i = 1; i <= count; i++) {
		syscall(number, 0, 0, 0, 0, 0, 0);
		if (turn && i % turn == 0)
			sched_yield();
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	int n = argc > 3 ? atoi(argv[3]) : 1;

	if (argc < 3 || n < 1 || n > 64)
		return 2;
	number = atol(argv[1]);
	count = atol(argv[2]);
	turn = argc > 4 ? atol(argv[4]) : 0;
	for (int i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, call, NULL))
			return 1;
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
