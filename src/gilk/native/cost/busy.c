/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The program by which gilk measures what instruments cost. For each byte of its
 * standard input it calls a small function in batches, and writes what each batch
 * took, in ticks of the time stamp counter, as 64-bit numbers. It ends with its
 * input. runs/costs.py knows how many batches and calls there are.
 *
 * A batch takes microseconds, so most are over before another program gets the
 * processor. The program needs no library, so that it starts at once.
 */

#define BATCHES 100
#define CALLS 500

static unsigned long took[BATCHES];

__attribute__((noinline, noclone)) long busy(long x)
{
	volatile long kept = x;

	return kept * 3 + 1;
}

static long ask_kernel(long what, long first, long second, long third)
{
	long answer;

	__asm__ volatile("syscall"
			 : "=a"(answer)
			 : "0"(what), "D"(first), "S"(second), "d"(third)
			 : "rcx", "r11", "memory");
	return answer;
}

enum { READ = 0, WRITE = 1, EXIT_GROUP = 231 };

__attribute__((noreturn, used)) void _start(void)
{
	char go;

	while (ask_kernel(READ, 0, (long)&go, 1) == 1) {
		for (int at = 0; at < BATCHES; at++) {
			unsigned long began = __builtin_ia32_rdtsc();

			for (long i = 0; i < CALLS; i++)
				busy(i);
			took[at] = __builtin_ia32_rdtsc() - began;
		}
		ask_kernel(WRITE, 1, (long)took, sizeof(took));
	}
	ask_kernel(EXIT_GROUP, 0, 0, 0);
	__builtin_unreachable();
}
