/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Restartable sequences: threads increment per-CPU counters in critical sections described in __rseq_cs, with the
 * area that glibc registers. Totals are exact only if the kernel still finds each section where its descriptor says.
 */
#include "check.h"

#include <pthread.h>
#include <sys/rseq.h>

enum { THREADS = 4, MAX_CPUS = 1024 };

struct counter {
	volatile int64_t value;
	char padding[56];
};

static struct counter counters[MAX_CPUS];
static long aborts;

static struct rseq *area(void)
{
	return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

/* Tries once to increment; returns 0 if the thread was moved or interrupted meanwhile, or was never on that CPU. */
NOINLINE int rseq_increment(struct rseq *self, struct counter *all);
NOINLINE int rseq_increment(struct rseq *self, struct counter *all)
{
	uint32_t cpu = *(volatile uint32_t *)&self->cpu_id_start;
	volatile int64_t *counter = &all[cpu].value;

	__asm__ volatile goto(
		".pushsection __rseq_cs, \"aw\"\n\t"
		".balign 32\n"
		"3:\n\t"
		".long 0, 0\n\t"
		".quad 1f, (2f - 1f), 4f\n\t"
		".popsection\n\t"
		"leaq 3b(%%rip), %%rax\n\t"
		"movq %%rax, %[section]\n"
		"1:\n\t"
		"cmpl %[cpu], %[cpu_id]\n\t"
		"jnz 4f\n\t"
		"movq %[counter], %%rcx\n\t"
		"addq $1, %%rcx\n\t"
		"movq %%rcx, %[counter]\n"
		"2:\n\t"
		".pushsection __rseq_failure, \"ax\"\n\t"
		".byte 0x0f, 0xb9, 0x3d\n\t" /* ud1 before the signature keeps disassembly in step */
		".long %c[signature]\n"
		"4:\n\t"
		"jmp %l[aborted]\n\t"
		".popsection"
		:
		: [section] "m"(self->rseq_cs), [cpu] "r"(cpu), [cpu_id] "m"(self->cpu_id), [counter] "m"(*counter),
		  [signature] "i"(RSEQ_SIG)
		: "memory", "cc", "rax", "rcx"
		: aborted);
	return 1;
aborted:
	return 0;
}

static void *run(void *amount)
{
	struct rseq *self = area();
	long failed = 0;

	for (long i = 0; i < (long)amount; i++)
		while (!rseq_increment(self, counters))
			failed++;
	__atomic_fetch_add(&aborts, failed, __ATOMIC_RELAXED);
	return NULL;
}

static void one_round(long amount)
{
	pthread_t thread[THREADS];
	int64_t total = 0;

	memset(counters, 0, sizeof counters);
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, run, (void *)amount), "pthread_create");
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < MAX_CPUS; i++)
		total += counters[i].value;
	CHECK(total == amount * THREADS, "%ld increments, of %ld", (long)total, amount * THREADS);
}

int main(int argc, char **argv)
{
	if (__rseq_size == 0 || (int32_t)area()->cpu_id < 0) {
		puts("skipped: restartable sequences are not registered\nok rseq");
		return 0;
	}
	return run_rounds(argc, argv, "rseq", 500000, one_round);
}
