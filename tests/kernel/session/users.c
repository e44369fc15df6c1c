/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls functions of its own, libc's malloc() and the kernel, and prints how often at the end.
 *
 * users N	N turns
 * users N fork	and then as many in a child
 * users N untouched	only with texts whose pages are not mapped in the process
 * users	a turn for each byte of standard input: it says how many there have been, after each
 * users 0 beside	the same in another thread, whose main thread has ended
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../programs/mark.h"

#define KEEP __attribute__((noinline))
#define LARGE (1 << 18)
#define PAGE 4096L

static long asked(long number)
{
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "0"(SYS_getpgid), "D"(number) : "rcx", "r11", "memory");
	return result;
}

KEEP long inner(long x)
{
	asked(0x10000 + x);
	return 3 * x + 1;
}

KEEP long outer(long x)
{
	return inner(x) + inner(x + 1);
}

KEEP long many(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j)
{
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j;
}

struct order {
	unsigned char count : 3, more : 5;
	const char *name;
	struct order *next;
	union {
		short small;
		int numbers[4];
	} u;
};

KEEP long placed(struct order *one, short by)
{
	return one->count * by + one->next->u.numbers[2];
}

/* No uprobe can be here: the kernel does not accept the prefix of the first instruction. */
void locked(long *);
__asm__(".globl locked\n.type locked, @function\nlocked:\n\tlock incq (%rdi)\n\tret\n.size locked, .-locked\n");

static long sum, counted, listened;
__attribute__((used, section(".probes"))) volatile unsigned short users_turned_semaphore;

KEEP void turn(long n)
{
	static struct order other = { .name = "other" }, one = { .count = 3, .name = "one", .next = &other };
	void *made;

	asked(0x20000 + n); /* in none of them */
	sum += outer(n);
	sum += many(n, 1, 2, 3, 4, 5, 6, 7, 8, n + 9);
	other.u.numbers[2] = -(int)n;
	one.more = n & 31;
	sum += placed(&one, (short)-n);
	locked(&counted);
	made = malloc(LARGE); /* one mmap() */
	munmap(mmap(0, LARGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), LARGE); /* and one outside */
	free(made);
	listened += users_turned_semaphore != 0;
	__asm__ volatile(MARK_AT(users, turned, "users_turned_semaphore", "-8@%0 -8@counted(%%rip) 8f@%%xmm0")
			 :
			 : "r"(-n)
			 : "memory");
}

/* The text has not been read since it was written; its two pages are in the file, but not mapped any more. */
KEEP void shown(const char *text, const char *nowhere)
{
	__asm__ volatile("" : : "r"(text), "r"(nowhere) : "memory");
}

static int untouched(long count)
{
	char *two, *nowhere = mmap(0, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FILE *file = tmpfile();
	long n;

	ftruncate(fileno(file), 2 * PAGE);
	for (n = 0; n < count; n++) {
		two = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
		snprintf(two + PAGE - 4, 32, "text %ld", n);
		munmap(two, 2 * PAGE);
		two = mmap(0, 2 * PAGE, PROT_READ, MAP_SHARED, fileno(file), 0);
		shown(two + PAGE - 4, nowhere);
		munmap(two, 2 * PAGE);
	}
	return 0;
}

static void *listen_to_input(void *unused)
{
	char byte;
	long n;

	for (n = 0; read(0, &byte, 1) == 1; n++) {
		turn(n);
		dprintf(1, "turns %ld\n", n + 1);
	}
	return unused;
}

static void *listen_alone(void *main_thread)
{
	pthread_join(*(pthread_t *)main_thread, 0);
	listen_to_input(0);
	exit(0);
}

static int beside(void)
{
	static pthread_t main_thread;
	pthread_t other;

	main_thread = pthread_self();
	if (pthread_create(&other, 0, listen_alone, &main_thread))
		return 1;
	pthread_exit(0);
}

int main(int argc, char **argv)
{
	long n, count = argc > 1 ? atol(argv[1]) : 0;

	if (argc > 2 && !strcmp(argv[2], "beside"))
		return beside();
	if (argc > 2 && !strcmp(argv[2], "untouched"))
		return untouched(count);
	mallopt(M_MMAP_THRESHOLD, LARGE / 2);
	setvbuf(stdout, 0, _IOLBF, 0);
	for (n = 0; n < count; n++)
		turn(n);
	if (argc > 2) {
		if (!fork())
			for (n = 0; n < count; n++)
				turn(n);
		while (wait(0) > 0)
			;
	}
	if (argc < 2)
		listen_to_input(0);
	dprintf(1, "sum %ld, counted %ld, listened %ld\n", sum, counted, listened);
	return 0;
}
