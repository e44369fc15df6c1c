/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * lab_calls BATCHES: prints what a getppid costs, in ticks of the time stamp counter, a line for each batch. If each
 * instruction is one tick, that is the number of instructions, in a batch without an interrupt.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#define CALLS 1000

int main(int argc, char **argv)
{
	int batches = argc > 1 ? atoi(argv[1]) : 20;

	for (int i = -2; i < batches; i++) { /* two to warm up */
		unsigned long long start = __rdtsc();

		for (int call = 0; call < CALLS; call++)
			syscall(SYS_getppid);
		if (i >= 0)
			printf("%.3f\n", (double)(__rdtsc() - start) / CALLS);
	}
	return 0;
}
