/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Measures what this machine can do at best: the time of single operations, in
 * nanoseconds, without the loop around them. Prints a line for each: name, value.
 *
 * Each figure is the fastest of many short runs: an interrupt or another process
 * can only add to a run.
 */
#include <stdio.h>
#include <time.h>

#define RUNS 200
#define LOOPS 20000

static unsigned long cell[8] __attribute__((aligned(64)));

__attribute__((noinline, noclone)) static void empty(void)
{
	__asm__ volatile("");
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

#define FASTEST(best, ...)                                         \
	do {                                                       \
		best = 1e9;                                        \
		for (int run = 0; run < RUNS; run++) {             \
			double start = now_ns(), spent;            \
			for (int i = 0; i < LOOPS; i++) {          \
				__VA_ARGS__;                       \
				__asm__ volatile("" ::: "memory"); \
			}                                          \
			spent = (now_ns() - start) / LOOPS;        \
			if (spent < best)                          \
				best = spent;                      \
		}                                                  \
	} while (0)

#define PRINT(name, ...)                                                    \
	do {                                                                \
		double best;                                                \
		FASTEST(best, __VA_ARGS__);                                 \
		printf("%s %.3f\n", name, best > loop ? best - loop : 0.0); \
	} while (0)

int main(void)
{
	double loop;

	FASTEST(loop, (void)0);
	printf("loop %.3f\n", loop);
	PRINT("call", empty());
	PRINT("rdtsc", __asm__ volatile("rdtsc" ::: "rax", "rdx"));
	PRINT("rdtscp", __asm__ volatile("rdtscp" ::: "rax", "rdx", "rcx"));
	PRINT("inc", __asm__ volatile("incq %0" : "+m"(cell[0])::"cc"));
	PRINT("lock-inc", __asm__ volatile("lock incq %0" : "+m"(cell[0])::"cc"));
	PRINT("cmpxchg", __asm__ volatile("mov %0, %%rax; cmpxchgq %%rax, %0" : "+m"(cell[0])::"rax", "cc"));
	PRINT("jump-pair", __asm__ volatile("jmp 1f; .balign 64; 1: jmp 2f; .balign 64; 2:"));
	PRINT("lahf-seto", __asm__ volatile("seto %%al; lahf; add $0x7f, %%al; sahf" ::: "rax", "cc"));
	PRINT("pushf-popf", __asm__ volatile("lea -128(%%rsp), %%rsp; pushf; popf; lea 128(%%rsp), %%rsp" ::: "cc", "memory"));
	PRINT("store-16-bytes", __asm__ volatile("movq $1, %0; movq $2, %1" : "=m"(cell[0]), "=m"(cell[1])));
	return 0;
}
