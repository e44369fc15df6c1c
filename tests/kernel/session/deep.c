/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Makes a system call N times, three functions deep, each with a frame; then, half a second later, N times from a
 * library that it has opened. Usage: deep N LIBRARY
 */
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define KEEP __attribute__((noinline))

KEEP static long innermost(long number)
{
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "0"(SYS_getpgid), "D"(number) : "rcx", "r11", "memory");
	return result;
}

KEEP long middle(long number)
{
	return innermost(0x1000 + number) + 1;
}

KEEP long outer(long number)
{
	return middle(number) + 1;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1, i;
	void *library = 0;
	long (*later)(long (*)(long), long);

	for (i = 0; i < count; i++)
		outer(i);
	poll(0, 0, 500);
	if (argc > 2)
		library = dlopen(argv[2], RTLD_NOW);
	later = library ? (long (*)(long (*)(long), long))dlsym(library, "later") : 0;
	for (i = 0; later && i < count; i++)
		later(outer, i);
	return argc > 2 && !later;
}
