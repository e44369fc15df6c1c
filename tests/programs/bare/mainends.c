/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The main thread ends when it has read a letter, and another one goes on: it calls step() ten times for each letter. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_t first;

__attribute__((noipa)) int step(int k)
{
	return k + 1;
}

static int letter(void)
{
	char got;

	return read(0, &got, 1) == 1;
}

static void *work(void *unused)
{
	int steps = 0;

	(void)unused;
	pthread_join(first, 0);
	puts("alone");
	fflush(stdout);
	while (letter()) {
		for (int times = 0; times < 10; times++)
			steps = step(steps);
		printf("%d\n", steps);
		fflush(stdout);
	}
	exit(0);
}

int main(void)
{
	pthread_t other;

	first = pthread_self();
	if (pthread_create(&other, 0, work, 0))
		return 1;
	puts("ready");
	fflush(stdout);
	letter();
	pthread_exit(0);
}
