/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A hostile process that shares memory with code in the kernel: FILE AMOUNT.
 *
 * With AMOUNT 0 it sets a number of instances that exceeds the room, and has the kernel look. Otherwise one thread
 * writes random data there while another makes so many system calls, each of which has to work.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HEAD = 8, PART = 49, PARTS = 64 }; /* words: struct gilk_woven in native/include/gilk_aspect.h */

static volatile uint64_t *words;
static uint64_t count;
static atomic_int over;

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint64_t value(uint64_t *state)
{
	uint64_t said = next(state);

	switch (next(state) % 8) {
	case 0: return 0;
	case 1: return ~0ull;
	case 2: return said % 8;
	case 3: return 1ull << said % 64;
	case 4: return said % 4096 << 1; /* a stage */
	case 5: return said << 16 | said % 4 << 1 | 1; /* somebody writes there */
	case 6: return (1ull << said % 64) - 1;
	}
	return said;
}

static void *scribble(void *unused)
{
	uint64_t state = 88172645463325252ull;

	(void)unused;
	while (!atomic_load(&over)) {
		uint64_t near = next(&state) % 2 ? HEAD + PART * 4 : count;

		words[next(&state) % near] = value(&state);
		words[0] = ~0ull; /* all is on */
	}
	return NULL;
}

static int asked(long times)
{
	pid_t session = getsid(0);

	for (long i = 0; i < times; i++) {
		if (syscall(SYS_getsid, 0) != session)
			return 2;
		if (syscall(SYS_getpgid, 0) != getpgrp() || syscall(SYS_getppid) != getppid())
			return 3;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int file = argc > 2 ? open(argv[1], O_RDWR) : -1;
	long times = argc > 2 ? atol(argv[2]) : 0;
	struct stat about;
	pthread_t writer;
	int wrong;

	if (file < 0 || fstat(file, &about))
		return 10;
	if (!ftruncate(file, 0) || !ftruncate(file, about.st_size * 2))
		return 11; /* nobody changes its size */
	count = (uint64_t)about.st_size / 8;
	words = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (words == MAP_FAILED)
		return 12;
	if (!times) {
		words[HEAD] = 1ull << 40; /* high */
		words[HEAD + 3] = 1ull << 36; /* hint */
		words[0] = ~0ull;
		asked(1);
		puts("survived");
		return 0;
	}
	if (pthread_create(&writer, NULL, scribble, NULL))
		return 13;
	wrong = asked(times);
	atomic_store(&over, 1);
	pthread_join(writer, NULL);
	words[0] = 0;
	puts("survived");
	return wrong;
}
