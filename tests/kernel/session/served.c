/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Serves three clients in turn, as often as it is told, and reads its own file for them: each time 500 bytes in all for the
 * first, 600 for the second, 700 for the third. In between it reads for no client, and things that are no file. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int file, nothing;
static char bytes[1024];

__attribute__((noinline)) void serve(long client)
{
	for (int i = 0; i < 5 + client; i++)
		if (pread(file, bytes, 100, 100 * i) != 100 || read(nothing, bytes, 10) != 10)
			exit(2);
}

__attribute__((noinline)) void served(long client)
{
	__asm__ volatile("" : : "r"(client));
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 1;

	file = open(argv[0], O_RDONLY);
	nothing = open("/dev/zero", O_RDONLY);
	for (long i = 0; i < rounds; i++) {
		serve(i % 3);
		served(i % 3);
		if (pread(file, bytes, 1000, 0) != 1000)
			return 3;
	}
	puts("done");
	return 0;
}
