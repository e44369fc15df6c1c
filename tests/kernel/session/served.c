/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Serves clients, for each of whom it makes some system calls that nothing else on an idle machine makes. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noinline)) void serve(long client, int times)
{
	for (int i = 0; i < times; i++)
		syscall(SYS_getsid, 0);
	__asm__ volatile("" : : "r"(client));
}

__attribute__((noinline)) void served(long client)
{
	__asm__ volatile("" : : "r"(client));
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 1;

	syscall(SYS_getsid, 0); /* for nobody */
	for (long i = 0; i < rounds; i++) {
		serve(i % 3, (int)(5 + i % 3));
		served(i % 3);
	}
	syscall(SYS_getsid, 0);
	puts("done");
	return 0;
}
