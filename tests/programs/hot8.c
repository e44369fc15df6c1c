/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Eight threads run hot functions all the time; the exact number of calls is printed.
 *
 * "calls hot N" and "calls hot_asm N" are the counts that counters at the entries must have over the program's life.
 * In loop mode threads run until standard input closes (or for N seconds), and the totals vary.
 */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8 };

uint64_t hot_asm(uint64_t x); /* one-byte pushes first, two-byte blocks, a loop */

__asm__(".text\n.globl hot_asm\n.type hot_asm,@function\nhot_asm:\n"
	"\t.cfi_startproc\n"
	"\tpush %rbx\n\t.cfi_def_cfa_offset 16\n\t.cfi_offset rbx,-16\n"
	"\tpush %rbp\n\t.cfi_def_cfa_offset 24\n\t.cfi_offset rbp,-24\n"
	"\tmov %edi, %ebx\n\txor %eax, %eax\n\tmov $3, %ebp\n"
	"1:\tadd %ebx, %eax\n\ttest $1, %al\n\tjz 2f\n\tinc %eax\n"
	"2:\tdec %ebp\n\tjnz 1b\n"
	"\tpop %rbp\n\t.cfi_def_cfa_offset 16\n"
	"\tpop %rbx\n\t.cfi_def_cfa_offset 8\n\tret\n"
	"\t.cfi_endproc\n.size hot_asm,.-hot_asm\n");

static atomic_long calls, stop, broken;

static uint64_t asm_model(uint32_t x)
{
	uint32_t sum = 0;

	for (int i = 0; i < 3; i++) {
		sum += x;
		sum += sum & 1;
	}
	return sum;
}

NOINLINE uint64_t hot(uint64_t x);
NOINLINE uint64_t hot(uint64_t x)
{
	uint64_t sum = x;

	BARRIER();
	if (x & 1)
		sum = sum * 3 + 1;
	else
		sum >>= 1;
	for (uint64_t i = 0; i < (x & 3); i++) {
		sum += i ^ x;
		BARRIER();
	}
	return sum;
}

static uint64_t model(uint64_t x)
{
	uint64_t sum = x & 1 ? x * 3 + 1 : x >> 1;

	return sum + ((x & 3) > 0 ? x : 0) + ((x & 3) > 1 ? 1 ^ x : 0) + ((x & 3) > 2 ? 2 ^ x : 0);
}

static void *run(void *amount)
{
	long done = 0, turns = (long)amount;
	uint64_t wrong = 0;

	for (; turns ? done < turns : !atomic_load_explicit(&stop, memory_order_relaxed); done++) {
		uint64_t x = (uint64_t)done;

		wrong |= hot(x) ^ model(x);
		wrong |= hot_asm(x) ^ asm_model((uint32_t)x);
	}
	atomic_fetch_add(&calls, done);
	atomic_fetch_add(&broken, wrong != 0);
	return NULL;
}

static void start(pthread_t *thread, long amount)
{
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, run, (void *)amount), "pthread_create");
}

static void finish(pthread_t *thread)
{
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(thread[i], NULL), "pthread_join");
	CHECK(!broken, "%ld threads computed nonsense", (long)broken);
	printf("calls hot %ld\ncalls hot_asm %ld\nok hot8\n", (long)calls, (long)calls);
}

static void wait_for_end(const char *limit)
{
	double end = limit ? seconds_now() + atof(limit) : 0;

	while (limit ? seconds_now() < end : !input_closed())
		usleep(2000);
	stop = 1;
}

int main(int argc, char **argv)
{
	int loop = argc > 1 && !strcmp(argv[1], "loop");
	pthread_t thread[THREADS];

	check_name = "hot8";
	start(thread, loop ? 0 : argc > 1 ? atol(argv[1]) : 200000);
	if (loop) {
		puts("ready");
		fflush(stdout);
		wait_for_end(argc > 2 ? argv[2] : NULL);
	}
	finish(thread);
	return 0;
}
