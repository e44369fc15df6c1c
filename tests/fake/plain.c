/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A program without a libc, whose functions have the shapes that make splicing hard: short ones, loops, calls, tail
 * calls, a jump table, recursion, a call through a pointer. It ends a round with sched_yield(2), and itself with the
 * sum of all it has computed.
 */
#define NOIPA __attribute__((noipa))

volatile unsigned long rounds = 8;
volatile unsigned long total;
volatile unsigned short listeners; /* a semaphore */

static long system_call(long number, long argument)
{
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(argument) : "rcx", "r11", "memory");
	return result;
}

/* One byte, with no room behind it that a splice could use. */
__asm__(".text\n.globl nothing\n.type nothing, @function\nnothing: ret\n.size nothing, 1\n"
	".globl next_to_it\n.type next_to_it, @function\nnext_to_it: lea 1(%rdi), %rax\nret\n.size next_to_it, 5\n");
unsigned long nothing(void);
unsigned long next_to_it(unsigned long);

NOIPA unsigned long leaf(unsigned long n)
{
	return n * 3 + 1;
}

NOIPA unsigned long loop(unsigned long n)
{
	unsigned long sum = 0;

	for (unsigned long i = 0; i < n; i++)
		sum += leaf(i) ^ i;
	return sum;
}

NOIPA unsigned long recursive(unsigned long n)
{
	return n < 2 ? 1 : recursive(n - 1) + recursive(n - 2) + 1;
}

NOIPA unsigned long tail(unsigned long n)
{
	return leaf(n + 7);
}

NOIPA unsigned long choose(unsigned long n)
{
	switch (n % 8) {
	case 0:
		return leaf(n);
	case 1:
		return total + 5;
	case 2:
		return n * n;
	case 3:
		return loop(3);
	case 4:
		return ~n;
	case 5:
		return n << 3 ^ total;
	case 6:
		return tail(n);
	default:
		return 11;
	}
}

static unsigned long (*volatile indirect)(unsigned long) = choose;

NOIPA unsigned long work(unsigned long n)
{
	unsigned long sum = loop(n % 5 + 1) + recursive(n % 4) + tail(n);

	nothing();
	return sum + next_to_it(n) + indirect(n);
}

/* The function of other threads. */
NOIPA unsigned long worker(unsigned long n)
{
	unsigned long sum = 0;

	for (unsigned long i = 0; i < n; i++) {
		sum += work(i);
		system_call(24, 0);
	}
	return sum;
}

/* The child does the same as its parent. */
NOIPA unsigned long parent(unsigned long n)
{
	system_call(57, 0);
	return worker(n);
}

/* It never returns, and never enters the kernel. */
unsigned long spin(unsigned long n)
{
	for (;;)
		total += leaf(n);
}

void start(void)
{
	for (unsigned long i = 0; i < rounds; i++) {
		total += work(i);
		system_call(24, 0);
	}
	system_call(60, (long)total);
	__builtin_unreachable();
}

__asm__(".globl _start\n.type _start, @function\n_start: xor %ebp, %ebp\ncall start\nud2\n.size _start, . - _start\n");
