/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The common parts of programs of unusual kinds: work() is called a number of times in a round, and the result is
 * printed. Without an argument there is one round; with one, "ready", and a round for each letter of standard input.
 */
#ifndef KIND_H
#define KIND_H

#include <stdio.h>
#include <stdlib.h>

#define CALLS 200
#define NOINLINE __attribute__((noinline, noclone))
#define STATUS 3

NOINLINE long work(long x);
NOINLINE long work(long x)
{
	if (x & 1)
		x = x * 3 + 1;
	for (int i = 0; i < 3; i++)
		x ^= x << 1;
	__asm__ volatile("" ::: "memory");
	return x & 0xffffff;
}

static inline int attend(int argc, void (*once)(void))
{
	if (argc > 1) {
		puts("ready");
		fflush(stdout);
		while (getchar() != EOF)
			once();
	} else {
		once();
	}
	return STATUS;
}

static inline void steadily(void)
{
	static long state = 1;

	for (int i = 0; i < CALLS; i++)
		state = work(state + i);
	printf("%lx\n", state);
	fflush(stdout);
}

/* The first executable mapping of the program's own file: its bounds, and its place in the file. */
static inline void own_text(unsigned long *start, unsigned long *end, unsigned long *offset)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long low, high, at, here = (unsigned long)work;
	char line[512], permissions[8];

	while (maps && fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx %7s %lx", &low, &high, permissions, &at) == 4 && low <= here && here < high) {
			*start = low;
			*end = high;
			*offset = at;
			fclose(maps);
			return;
		}
	abort();
}

#endif
