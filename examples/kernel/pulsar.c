/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Pulsar: a known sequence of forks (GILK, figure 7).
 *
 *	pulsar BURSTS FORKS MILLISECONDS [ticks]
 *
 * Each burst is so many forks in a row, of children that end at once; then the
 * program sleeps, and waits for all of them. With "ticks" it prints its process
 * number, and then by how much the time stamp counter rose in each fork.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long now(void)
{
	unsigned int low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (unsigned long)high << 32 | low;
}

static void burst(int forks, int milliseconds, unsigned long *ticks)
{
	for (int i = 0; i < forks; i++) {
		unsigned long before = now();

		if (fork() == 0)
			_exit(0);
		ticks[i] = now() - before;
	}
	usleep(1000 * milliseconds);
	for (int i = 0; i < forks; i++)
		wait(NULL);
}

int main(int count, char *words[])
{
	int bursts, forks;
	unsigned long *ticks;

	if (count < 4)
		return 2;
	bursts = atoi(words[1]);
	forks = atoi(words[2]);
	ticks = calloc(bursts * forks, sizeof(*ticks));
	for (int n = 0; n < bursts; n++)
		burst(forks, atoi(words[3]), ticks + n * forks);
	if (count == 4)
		return 0;
	printf("%d\n", getpid());
	for (int i = 0; i < bursts * forks; i++)
		printf("%lu\n", ticks[i]);
	return 0;
}
