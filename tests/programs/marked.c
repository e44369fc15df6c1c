/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Places that the program marks for tracers, as <sys/sdt.h> does, and a function with ten arguments. It prints how
 * often it passed them, the sum of the arguments there, and how often somebody listened:
 *   steps N sum S listened L
 */
#include "check.h"
#include "mark.h"

/* The semaphore of sdt.h's probes of that name. */
__attribute__((used, section(".probes"))) volatile unsigned short marked_step_semaphore;
__attribute__((used)) long marked_total;
static long steps, sum, listened;
static int looping;

NOINLINE void step(long i);
NOINLINE void step(long i)
{
	int low = (int)-i;
	volatile short half = (short)(-i);
	unsigned char byte = (unsigned char)i;

	marked_total += i;
	__asm__ volatile(MARK_AT(marked, work__step, "marked_step_semaphore",
				 "-4@%k0 -2@%1 1@%b2 4@$3 -4@$-5 8@marked_total(%%rip)")
			 :
			 : "r"(low), "m"(half), "q"(byte)
			 : "memory");
	steps++;
	sum += i;
	listened += marked_step_semaphore != 0;
}

/* The same probe at another place, its operands elsewhere. */
NOINLINE void other_step(long i);
NOINLINE void other_step(long i)
{
	long table[4] = { 0, 0, (short)-i, 0 };

	marked_total += i;
	__asm__ volatile("movl %k[minus], %%edi\n\tmovl $0xff77, %%edx\n\tmovb %b[byte], %%dh\n"
			 MARK_AT(marked, work__step, "marked_step_semaphore",
				 "-4@%%edi -2@(%%rax,%%rcx,8) 1@%%dh 4@$0x3 -4@$-5 8@-8+marked_total+8(%%rip)")
			 :
			 : [minus] "r"((int)-i), [byte] "Q"((char)i), "a"(table), "c"(2L)
			 : "rdi", "rdx", "memory");
	steps++;
	sum += i;
	listened += marked_step_semaphore != 0;
}

NOINLINE void unlistened(double value);
NOINLINE void unlistened(double value)
{
	__asm__ volatile(MARK_AT(marked, float, "0", "8f@%0 -4@$7") : : "x"(value));
}

NOINLINE long ten(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j);
NOINLINE long ten(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j)
{
	BARRIER();
	return a + b + c + d + e + f + 2 * g + 3 * h + 4 * i + 5 * j;
}

static void one_round(long amount)
{
	for (long i = 0; i < amount; i++) {
		if (i & 1)
			other_step(i);
		else
			step(i);
		unlistened((double)i);
		CHECK(ten(1, 2, 3, 4, 5, 6, i, i + 1, i + 2, -i) == 32 + 4 * i, "ten(%ld)", i);
	}
	CHECK(marked_total == sum, "the total is %ld, not %ld", marked_total, sum);
	if (!looping)
		printf("steps %ld sum %ld listened %ld\n", steps, sum, listened);
}

int main(int argc, char **argv)
{
	looping = argc > 1 && !strcmp(argv[1], "loop");
	return run_rounds(argc, argv, "marked", 1000, one_round);
}
