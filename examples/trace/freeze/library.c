// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A library that is slow to load: its constructor NAME_init() reads, computes
 * or waits, whichever is named by -DSLOWLY, AMOUNT times over.
 */
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#define ONE_WAY static __attribute__((noinline, unused))

/* Reads a file `times` times, as a search in many small files would. */
ONE_WAY void read_files(int times)
{
	char piece[512];

	for (int i = 0; i < times; i++) {
		int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

		while (file >= 0 && read(file, piece, sizeof piece) > 0)
			;
		close(file);
	}
}

/* Computes a table entry by entry, which takes about `times` milliseconds. */
ONE_WAY void compute(int times)
{
	unsigned table[256], seed = 1;

	for (int i = 0; i < times * 1000; i++)
		for (int n = 0; n < 256; n++)
			((volatile unsigned *)table)[n] = seed = seed * 1103515245 + 12345;
}

/* Asks a device every millisecond; it answers late. */
ONE_WAY void wait_for_device(int times)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (int i = 0; i < times; i++)
		nanosleep(&pause, 0);
}

static __attribute__((constructor)) void JOIN(NAME, _init)(void)
{
	SLOWLY(AMOUNT);
}
