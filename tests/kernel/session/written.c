/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Passes pointers to its memory to a function and to a system call, and prints what is in it afterwards.
 *
 * written N	so many turns
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define KEEP __attribute__((noinline))
#define PAGE 4096

static char data[2 * PAGE] __attribute__((aligned(PAGE))) = "data"; /* pages of the file, until they are written to */
static const char constant[PAGE] __attribute__((aligned(PAGE))) = "constant";
static long sum;

static long asked(const void *number)
{
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "0"(SYS_getpgid), "D"(number) : "rcx", "r11", "memory");
	return result;
}

KEEP void shown(char *own, char *file, const char *fixed)
{
	__asm__ volatile("" : : "r"(own), "r"(file), "r"(fixed) : "memory");
}

int main(int argc, char **argv)
{
	char own[64] = "own", asks[64] = "asks";
	long n, count = argc > 1 ? atol(argv[1]) : 1;
	int number;

	for (n = 0; n < count; n++) {
		shown(own, data, constant);
		asked(asks);
		memcpy(&number, data + PAGE - 2, sizeof(number));
		sum += number;
	}
	printf("%s|%s|%s|%s|%ld\n", own, asks, data, constant, sum);
	return 0;
}
